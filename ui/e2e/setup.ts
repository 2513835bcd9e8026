/** One server for all tests, with a few accounts. */
import { client, startServer } from "./server"

export const PASSWORD = "correct horse battery"

export default async function setup(): Promise<() => Promise<void>> {
  const server = await startServer()
  process.env.MUSTER_URL = server.url
  process.env.MUSTER_LINK = server.link
  process.env.MUSTER_TOKEN = server.token
  process.env.MUSTER_REPOSITORIES = server.repositories
  const api = client(server.url, server.token)
  for (const name of ["ann", "bob"]) await api("POST", "users", { name, password: PASSWORD })
  return server.stop
}
