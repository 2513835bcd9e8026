/**
 * The platform's API, typed by its OpenAPI document (`make ui` generates schema.d.ts from it).
 *
 *   const page = await api.GET("/api/v1/workflows", { params: { query: { q } } }).then(data)
 *
 * Every answer that is not a success is thrown as a Problem.
 */
import { type Query, QueryClient, type QueryKey, queryOptions, useSuspenseQuery } from "@tanstack/react-query"
import createClient, { type Middleware } from "openapi-fetch"
import { asProblem, Problem, problemOf } from "./problem"
import type { components, paths } from "./schema"

export type Schema<K extends keyof components["schemas"]> = components["schemas"][K]

const SAFE = new Set(["GET", "HEAD", "OPTIONS"])

const csrfAndProblems: Middleware = {
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

export const api = createClient<paths>({ baseUrl: globalThis.location?.origin ?? "" })
api.use(csrfAndProblems)

let signedOut = (): void => {}

/** Registers what to do when the session has expired; the router leads to the sign-in page. */
export function onSignedOut(lead: () => void): void {
  signedOut = lead
}

/** For APIs that are not called by `api`. */
export function sessionExpired(): void {
  signedOut()
}

export function data<T>(answer: { data?: T }): T {
  if (answer.data === undefined) throw new Problem(0, "empty", "", "the server's answer was empty")
  return answer.data
}

export function cookie(name: string): string | undefined {
  const found = document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`))
  return found && decodeURIComponent(found.slice(name.length + 1))
}

/** The cache of loaded data. Requests that the server refused are not retried; those that did not reach it are. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, error) => {
        const { status } = asProblem(error)
        return (status === 0 || status >= 500) && count < 2
      },
    },
  },
})

const soon = new WeakMap<Query, Promise<void>>()

/**
 * Loads again what begins with one of these keys, because something has changed. Responses that are on their way are
 * waited for: they may be older than the change. `invalidateQueries` alone would take the first response for the newest,
 * and cancel later ones, so that a page with more events than responses would never be up to date.
 */
export async function reload(...keys: QueryKey[]): Promise<void> {
  await Promise.all(keys.flatMap((queryKey) => queryClient.getQueryCache().findAll({ queryKey }).map(reloadOne)))
}

function reloadOne(query: Query): Promise<void> {
  const again = () => queryClient.invalidateQueries({ queryKey: query.queryKey, exact: true })
  if (query.state.fetchStatus !== "fetching") return again()
  const planned = soon.get(query)
  if (planned) return planned
  const onItsWay = query.fetch().then(nothing, nothing)
  const reloaded = onItsWay.then(() => {
    soon.delete(query)
    return again()
  })
  soon.set(query, reloaded)
  return reloaded
}

function nothing(): void {}

/** Does something that changes what these keys load. */
export async function reloadAfter<T>(work: Promise<T>, ...keys: QueryKey[]): Promise<T> {
  const done = await work
  void reload(...keys)
  return done
}

/** Shows what an event says. A response that is on its way is older, or another event follows. */
export function showEvent<T>(queryKey: QueryKey, said: T): void {
  void queryClient.cancelQueries({ queryKey, exact: true })
  queryClient.setQueryData(queryKey, said)
}

export type Me = Schema<"Me">

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => api.GET("/api/v1/session", { signal }).then(data),
  staleTime: 60_000,
  retry: false,
})

/** The signed-in user; only for pages that need a session. */
export function useMe(): Me {
  return useSuspenseQuery(sessionQuery).data
}

export const loginOptionsQuery = queryOptions({
  queryKey: ["login-options"],
  queryFn: ({ signal }) => api.GET("/api/v1/login-options", { signal }).then(data),
})

export async function signIn(name: string, password: string): Promise<void> {
  await api.POST("/api/v1/session", { body: { name, password } })
}

export async function signOut(): Promise<void> {
  await api.DELETE("/api/v1/session")
}

export async function readLink(secret: string): Promise<string> {
  return (await api.POST("/api/v1/link", { body: { secret } }).then(data)).name
}

export async function redeemLink(secret: string, password: string): Promise<void> {
  await api.POST("/api/v1/link/use", { body: { secret, password } })
}
