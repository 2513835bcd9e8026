/** Users, teams, tokens, categories, storage roots, virtual clusters and the audit log. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, reload, type Schema } from "./client"
import { filledIn } from "./workflows"

export type User = Schema<"User">
export type Team = Schema<"Team">
export type Member = Schema<"Member">
export type Token = Schema<"ApiToken">
export type Session = Schema<"Session">
export type Category = Schema<"Category">
export type StorageRoot = Schema<"StorageRoot">
export type AuditEntry = Schema<"AuditEntry">

interface ListQuery {
  q?: string
  sort?: string
  cursor?: string
  limit?: number
}

interface AuditQuery extends ListQuery {
  actor?: string
  kind?: string
  action?: string
  subject?: string
  since?: string
  until?: string
}

export const usersQuery = (query: ListQuery & { role?: "admin" | "leader" | "member"; disabled?: boolean }) =>
  queryOptions({
    queryKey: ["users", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/users", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const userQuery = (user: string) =>
  queryOptions({
    queryKey: ["users", "one", user],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/users/{user_id}", { params: { path: { user_id: user } }, signal }).then(data),
  })

export const teamListQuery = (query: ListQuery & { member?: string }) =>
  queryOptions({
    queryKey: ["teams", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/teams", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const teamQuery = (team: string) =>
  queryOptions({
    queryKey: ["teams", "one", team],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/teams/{team_id}", { params: { path: { team_id: team } }, signal }).then(data),
  })

export const membersQuery = (team: string, query: ListQuery) =>
  queryOptions({
    queryKey: ["teams", "one", team, "members", query],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/teams/{team_id}/members", { params: { path: { team_id: team }, query: filledIn(query) }, signal })
        .then(data),
  })

export const categoryListQuery = (query: ListQuery) =>
  queryOptions({
    queryKey: ["categories", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/categories", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const categoryQuery = (category: string) =>
  queryOptions({
    queryKey: ["categories", "one", category],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/categories/{category}", { params: { path: { category } }, signal }).then(data),
  })

export const storageQuery = (root: string) =>
  queryOptions({
    queryKey: ["storage", "one", root],
    queryFn: ({ signal }) => api.GET("/api/v1/storage/{root}", { params: { path: { root } }, signal }).then(data),
  })

export const storageListQuery = (query: ListQuery) =>
  queryOptions({
    queryKey: ["storage", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/storage", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const clusterListQuery = (query: ListQuery) =>
  queryOptions({
    queryKey: ["clusters", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/clusters", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const tokensQuery = (query: ListQuery & { user?: string; all?: boolean }) =>
  queryOptions({
    queryKey: ["tokens", query],
    queryFn: ({ signal }) => api.GET("/api/v1/tokens", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const sessionsQuery = (query: ListQuery) =>
  queryOptions({
    queryKey: ["sessions", query],
    queryFn: ({ signal }) => api.GET("/api/v1/sessions", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const auditQuery = (query: AuditQuery) =>
  queryOptions({
    queryKey: ["audit", query],
    queryFn: ({ signal }) => api.GET("/api/v1/audit", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const createUser = (body: Partial<Schema<"NewUser">> & { name: string }) =>
  changed(
    "users",
    api.POST("/api/v1/users", { body: { display_name: "", email: "", role: "member", ...body } }).then(data),
  )

export const editUser = (user: User, body: Partial<Schema<"UserChange">>) =>
  changed(
    "users",
    api
      .PATCH("/api/v1/users/{user_id}", {
        params: { path: { user_id: user.id }, header: match(user) },
        body: body as Schema<"UserChange">,
      })
      .then(data),
  )

export const resetPassword = (user: User) =>
  changed("users", api.POST("/api/v1/users/{user_id}/link", { params: { path: { user_id: user.id } } }).then(data))

export const createTeam = (body: { name: string; description: string }) =>
  changed("teams", api.POST("/api/v1/teams", { body }).then(data))

export const editTeam = (team: Team, body: { name: string; description: string }) =>
  changed("teams", api.PATCH("/api/v1/teams/{team_id}", { params: { path: { team_id: team.id } }, body }).then(data))

export const deleteTeam = (team: Team) =>
  changed("teams", api.DELETE("/api/v1/teams/{team_id}", { params: { path: { team_id: team.id } } }))

export const setMember = (team: Team, user: string, role: Member["role"]) =>
  changed(
    "teams",
    api.PUT("/api/v1/teams/{team_id}/members/{user_id}", {
      params: { path: { team_id: team.id, user_id: user } },
      body: { role },
    }),
  )

export const removeMember = (team: Team, user: string) =>
  changed(
    "teams",
    api.DELETE("/api/v1/teams/{team_id}/members/{user_id}", { params: { path: { team_id: team.id, user_id: user } } }),
  )

export const saveCategory = (category: Category | undefined, body: { name: string; description: string }) =>
  changed(
    "categories",
    category
      ? api
          .PATCH("/api/v1/categories/{category}", {
            params: { path: { category: category.id }, header: match(category) },
            body,
          })
          .then(data)
      : api.POST("/api/v1/categories", { body }).then(data),
  )

export const deleteCategory = (category: Category) =>
  changed("categories", api.DELETE("/api/v1/categories/{category}", { params: { path: { category: category.id } } }))

export const saveStorage = (root: StorageRoot | undefined, body: Schema<"RootBody">) =>
  changed(
    "storage",
    root
      ? api
          .PATCH("/api/v1/storage/{root}", { params: { path: { root: root.id }, header: match(root) }, body })
          .then(data)
      : api.POST("/api/v1/storage", { body }).then(data),
  )

export const deleteStorage = (root: StorageRoot) =>
  changed("storage", api.DELETE("/api/v1/storage/{root}", { params: { path: { root: root.id } } }))

export const saveCluster = (cluster: Schema<"VirtualCluster"> | undefined, body: Schema<"ClusterBody">) =>
  changed(
    "clusters",
    cluster
      ? api
          .PATCH("/api/v1/clusters/{cluster}", {
            params: { path: { cluster: cluster.id }, header: match(cluster) },
            body,
          })
          .then(data)
      : api.POST("/api/v1/clusters", { body }).then(data),
  )

export const deleteCluster = (cluster: Schema<"VirtualCluster">) =>
  changed("clusters", api.DELETE("/api/v1/clusters/{cluster}", { params: { path: { cluster: cluster.id } } }))

export const createToken = (body: Schema<"NewToken">) =>
  changed("tokens", api.POST("/api/v1/tokens", { body }).then(data))

export const revokeToken = (token: Token) =>
  changed("tokens", api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: token.id } } }))

export const endSession = (session: Session) =>
  changed("sessions", api.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id: session.id } } }))

export const changePassword = (body: { old: string; new: string }) =>
  changed("sessions", api.POST("/api/v1/password", { body }))

/** Invalidates the queries of the area and of the audit log. */
async function changed<T>(area: string, change: Promise<T>): Promise<T> {
  const answer = await change
  const areas = [area, "audit", ...(area === "teams" || area === "users" ? ["session", "users"] : [])]
  await reload(...areas.map((each) => [each]))
  return answer
}

/** The server refuses the change if someone else has changed the object since. */
function match({ id, revision }: { id: string; revision: number }): { "if-match": string } {
  return { "if-match": `"${id}-${revision}"` }
}
