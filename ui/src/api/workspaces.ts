/** Notebooks and TensorBoards: lists and details that follow the server, and how they are opened. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, reloadAfter, type Schema } from "./client"
import { useLiveOne } from "./live"
import { type LogSource, timedLog } from "./log"
import { filledIn } from "./workflows"

export type Notebook = Schema<"Notebook">
export type NotebookBody = Schema<"NotebookBody">
export type NotebookChange = Schema<"NotebookChange">
export type NotebookMount = NonNullable<NotebookBody["mounts"]>[number]
export type TensorBoard = Schema<"TensorBoard">
export type TensorBoardBody = Schema<"TensorBoardBody">
export type WorkspaceImage = Schema<"WorkspaceImage">
export type WorkspaceState = Notebook["state"]
/** What notebooks and TensorBoards have in common. */
export type Workspace = Notebook | TensorBoard
export type WorkspaceKind = "notebooks" | "tensorboards"
export type Change = "start" | "stop" | "restart"

/** What identifies a workspace in addresses. */
export interface WorkspacePlace {
  namespace: string
  name: string
}

export interface WorkspaceFilter {
  q?: string
  state?: WorkspaceState[]
  sort?: string
  cursor?: string
  limit?: number
}

/** States change by themselves: environments are installed, idle notebooks are stopped. */
const LIST_MILLISECONDS = 3_000

export const notebooksQuery = (query: WorkspaceFilter) =>
  queryOptions({
    queryKey: ["notebooks", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/notebooks", { params: { query: filledIn(query) }, signal }).then(data),
    refetchInterval: LIST_MILLISECONDS,
  })

export const notebookQuery = (path: WorkspacePlace) =>
  queryOptions({
    queryKey: ["notebooks", "one", path],
    queryFn: ({ signal }) => api.GET("/api/v1/notebooks/{namespace}/{name}", { params: { path }, signal }).then(data),
  })

export const tensorBoardsQuery = (query: WorkspaceFilter) =>
  queryOptions({
    queryKey: ["tensorboards", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/tensorboards", { params: { query: filledIn(query) }, signal }).then(data),
    refetchInterval: LIST_MILLISECONDS,
  })

export const tensorBoardQuery = (path: WorkspacePlace) =>
  queryOptions({
    queryKey: ["tensorboards", "one", path],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/tensorboards/{namespace}/{name}", { params: { path }, signal }).then(data),
  })

export const workspaceEventsQuery = (kind: WorkspaceKind, path: WorkspacePlace) =>
  queryOptions({
    queryKey: [kind, "one", path, "happenings"],
    queryFn: ({ signal }) =>
      (kind === "notebooks"
        ? api.GET("/api/v1/notebooks/{namespace}/{name}/happenings", { params: { path }, signal })
        : api.GET("/api/v1/tensorboards/{namespace}/{name}/happenings", { params: { path }, signal })
      ).then(data),
  })

export const imagesQuery = queryOptions({
  queryKey: ["notebooks", "images"],
  queryFn: ({ signal }) => api.GET("/api/v1/workspaces/images", { signal }).then(data),
  staleTime: 10_000,
})

export function workspaceLog(kind: WorkspaceKind, place: WorkspacePlace): LogSource {
  const text = `${address(kind, place)}/log`
  return { text, events: `${text}/events`, name: `${place.name}.log`, timed: timedLog(text) }
}

export async function createNotebook(body: NotebookBody): Promise<Notebook> {
  return changed("notebooks", api.POST("/api/v1/notebooks", { body }).then(data))
}

/** What is left out stays. */
export async function editNotebook(workspace: Notebook, changes: Partial<NotebookChange>): Promise<Notebook> {
  const params = { path: placeOfWorkspace(workspace) }
  const body = changes as NotebookChange
  return changed("notebooks", api.PATCH("/api/v1/notebooks/{namespace}/{name}", { params, body }).then(data))
}

export async function createTensorBoard(body: Partial<TensorBoardBody>): Promise<TensorBoard> {
  const whole = { name: "", team: "", logs: [], runs: [], job: "", credentials: "", ...body }
  return changed("tensorboards", api.POST("/api/v1/tensorboards", { body: whole }).then(data))
}

export async function changeWorkspace(kind: WorkspaceKind, path: WorkspacePlace, change: Change): Promise<unknown> {
  const params = { params: { path } }
  const work = {
    notebooks: {
      start: () => api.POST("/api/v1/notebooks/{namespace}/{name}/start", params),
      stop: () => api.POST("/api/v1/notebooks/{namespace}/{name}/stop", params),
      restart: () => api.POST("/api/v1/notebooks/{namespace}/{name}/restart", params),
    },
    tensorboards: {
      start: () => api.POST("/api/v1/tensorboards/{namespace}/{name}/start", params),
      stop: () => api.POST("/api/v1/tensorboards/{namespace}/{name}/stop", params),
      restart: () => api.POST("/api/v1/tensorboards/{namespace}/{name}/restart", params),
    },
  }
  return changed<unknown>(kind, work[kind][change]())
}

/** `home`: its home volume is deleted, too. */
export async function deleteNotebook(path: WorkspacePlace, home: boolean): Promise<void> {
  const params = { path, query: home ? { home } : {} }
  await reloadAfter(api.DELETE("/api/v1/notebooks/{namespace}/{name}", { params }), ["notebooks", "list"])
}

export async function deleteTensorBoard(path: WorkspacePlace): Promise<void> {
  const params = { path }
  await reloadAfter(api.DELETE("/api/v1/tensorboards/{namespace}/{name}", { params }), ["tensorboards", "list"])
}

/**
 * Opens a workspace in a new tab. It has an origin of its own; the server answers with a link that leads there once. The
 * tab is opened at once, because browsers refuse to open one after a request.
 */
export async function openWorkspace(uid: string, path = ""): Promise<void> {
  const tab = window.open("", "_blank")
  if (tab) tab.opener = null
  // Without a path, the server chooses the page; an empty one would not be valid.
  const body = (path ? { path } : {}) as Schema<"OpenWorkspace">
  try {
    const { url } = await api.POST("/api/v1/workspaces/{uid}/open", { params: { path: { uid } }, body }).then(data)
    if (tab) tab.location.replace(url)
    else location.assign(url)
  } catch (error) {
    tab?.close()
    throw error
  }
}

export function placeOfWorkspace({ namespace, name }: WorkspacePlace): WorkspacePlace {
  return { namespace, name }
}

/** Keeps a workspace up to date. Returns true when it was deleted. */
export function useLiveWorkspace(kind: WorkspaceKind, place: WorkspacePlace): boolean {
  return useLiveOne(`${address(kind, place)}/events`, {
    name: kind === "notebooks" ? "notebook" : "tensorboard",
    key: [kind, "one", place],
    also: [[kind, "one", place, "happenings"]],
  })
}

function address(kind: WorkspaceKind, { namespace, name }: WorkspacePlace): string {
  return `/api/v1/${kind}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
}

function changed<T>(kind: WorkspaceKind, work: Promise<T>): Promise<T> {
  return reloadAfter(work, [kind])
}
