/**
 * The platform's API, typed by its OpenAPI document (schema.d.ts is made of it by `make ui`).
 *
 *   const page = await api.GET("/api/v1/workflows", { params: { query: { q } } }).then(data)
 *
 * Everything that is not an answer is thrown as a Problem.
 */
import createClient, { type Middleware } from "openapi-fetch"
import { Problem, problemOf } from "./problem"
import type { components, paths } from "./schema"

export type Schema<K extends keyof components["schemas"]> = components["schemas"][K]

const SAFE = new Set(["GET", "HEAD", "OPTIONS"])

const careful: Middleware = {
  onRequest({ request }) {
    const token = cookie("muster_csrf")
    if (!SAFE.has(request.method) && token) request.headers.set("X-CSRF-Token", token)
    return request
  },
  async onResponse({ request, response }) {
    if (response.ok) return response
    const problem = await problemOf(response)
    if (response.status === 401 && !request.url.endsWith("/api/v1/session")) signedOut()
    throw problem
  },
}

export const api = createClient<paths>({ baseUrl: location.origin })
api.use(careful)

let signedOut = (): void => {}

/** Somebody whose session is over is to be led to the sign-in page; the router knows how. */
export function onSignedOut(lead: () => void): void {
  signedOut = lead
}

export function data<T>(answer: { data?: T }): T {
  if (answer.data === undefined) throw new Problem(0, "empty", "", "the server's answer was empty")
  return answer.data
}

export function cookie(name: string): string | undefined {
  const found = document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`))
  return found && decodeURIComponent(found.slice(name.length + 1))
}
