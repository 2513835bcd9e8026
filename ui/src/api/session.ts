/** Who one is. */
import { queryOptions, useSuspenseQuery } from "@tanstack/react-query"
import { api, data, type Schema } from "./client"

export type Me = Schema<"Me">

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => api.GET("/api/v1/session", { signal }).then(data),
  staleTime: 60_000,
  retry: false,
})

/** On pages behind the sign-in. */
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

export async function lookAtLink(secret: string): Promise<string> {
  return (await api.POST("/api/v1/link", { body: { secret } }).then(data)).name
}

export async function redeemLink(secret: string, password: string): Promise<void> {
  await api.POST("/api/v1/link/use", { body: { secret, password } })
}
