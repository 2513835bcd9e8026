/** Volumes and their files. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query"
import { api, cookie, data, reload, reloadAfter, type Schema } from "./client"
import { Problem, problemOf } from "./problem"
import { filledIn } from "./workflows"

export type Volume = Schema<"Volume">
export type VolumeUse = Schema<"VolumeUse">
export type VolumeEntry = Schema<"VolumeEntry">
export type AccessMode = NonNullable<Schema<"VolumeBody">["access_mode"]>

/** What identifies a volume in addresses. */
export interface VolumePlace {
  namespace: string
  name: string
}

interface VolumeFilter {
  q?: string
  owner?: string
  sort?: string
  cursor?: string
  limit?: number
}

const PIECE = 200

export const volumesQuery = (query: VolumeFilter) =>
  queryOptions({
    queryKey: ["volumes", "list", query],
    queryFn: ({ signal }) => api.GET("/api/v1/volumes", { params: { query: filledIn(query) }, signal }).then(data),
  })

export const volumeQuery = (path: VolumePlace) =>
  queryOptions({
    queryKey: ["volumes", "one", path],
    queryFn: ({ signal }) => api.GET("/api/v1/volumes/{namespace}/{name}", { params: { path }, signal }).then(data),
    // A new volume is bound within a moment, and what uses it changes without a word.
    refetchInterval: ({ state }) => (state.data?.state === "bound" ? 10_000 : 1_000),
  })

export const usageQuery = (place: VolumePlace) =>
  queryOptions({
    queryKey: ["volumes", "usage", place],
    queryFn: ({ signal }) =>
      api.GET("/api/v1/volumes/{namespace}/{name}/usage", { params: { path: place }, signal }).then(data),
    staleTime: 30_000,
  })

export const filesQuery = (place: VolumePlace, path: string) =>
  infiniteQueryOptions({
    queryKey: ["volumes", "files", place, path],
    queryFn: ({ signal, pageParam }) =>
      api
        .GET("/api/v1/volumes/{namespace}/{name}/files", {
          params: { path: place, query: filledIn({ path, cursor: pageParam, limit: PIECE }) },
          signal,
        })
        .then(data),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  })

export async function createVolume(body: {
  name: string
  size: string
  access_mode: AccessMode
  team: string
}): Promise<Volume> {
  const making = api.POST("/api/v1/volumes", { body: { storage_class: "", ...body } }).then(data)
  return reloadAfter(making, ["volumes", "list"])
}

export async function deleteVolume(path: VolumePlace): Promise<void> {
  await reloadAfter(api.DELETE("/api/v1/volumes/{namespace}/{name}", { params: { path } }), ["volumes", "list"])
}

export async function createFolder(place: VolumePlace, path: string): Promise<void> {
  await api.POST("/api/v1/volumes/{namespace}/{name}/folders", { params: { path: place }, body: { path } })
  filesChanged(place)
}

export async function renameFile(place: VolumePlace, path: string, to: string): Promise<void> {
  await api.POST("/api/v1/volumes/{namespace}/{name}/files/rename", { params: { path: place }, body: { path, to } })
  filesChanged(place)
}

export async function deleteFile(place: VolumePlace, path: string): Promise<void> {
  await api.DELETE("/api/v1/volumes/{namespace}/{name}/files", { params: { path: place, query: { path } } })
  filesChanged(place)
}

/** Sends a file, and reports how much of it has been sent, from 0 to 1. `fetch` cannot do that. */
export function uploadFile(
  place: VolumePlace,
  path: string,
  file: File,
  { replace, progress, signal }: { replace: boolean; progress: (part: number) => void; signal: AbortSignal },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const query = new URLSearchParams({ path, ...(replace ? { replace: "true" } : {}) })
    request.open("PUT", `${address(place)}/files/content?${query}`)
    request.setRequestHeader("X-CSRF-Token", cookie("muster_csrf") ?? "")
    request.setRequestHeader("Content-Type", "application/octet-stream")
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 1)
    request.onerror = () => reject(new Problem(0, "unreachable", "", ""))
    request.onabort = () => reject(new DOMException("", "AbortError"))
    request.onload = () => {
      if (request.status < 300) {
        filesChanged(place)
        resolve()
        return
      }
      const headers = { "Content-Type": request.getResponseHeader("Content-Type") ?? "" }
      void problemOf(new Response(request.responseText, { status: request.status, headers })).then(reject)
    }
    signal.addEventListener("abort", () => request.abort())
    request.send(file)
  })
}

export function downloadLink(place: VolumePlace, entry: Pick<VolumeEntry, "kind" | "path">): string {
  const what = entry.kind === "folder" ? "archive" : "content"
  return `${address(place)}/files/${what}?${new URLSearchParams({ path: entry.path })}`
}

export function placeOfVolume({ namespace, name }: VolumePlace): VolumePlace {
  return { namespace, name }
}

/** The path of something in a folder. A percent sign in a name is escaped, as the API asks for. */
export function pathIn(folder: string, name: string): string {
  const escaped = name.replaceAll("%", "%25")
  return folder ? `${folder}/${escaped}` : escaped
}

/** The folders above a path, from the top: their names to show, and their paths. */
export function trailOf(path: string): { name: string; path: string }[] {
  const parts = path.split("/").filter(Boolean)
  return parts.map((part, index) => ({ name: shownPart(part), path: parts.slice(0, index + 1).join("/") }))
}

/** `100%25` is `100%`. Bytes that are not text stay escaped. */
function shownPart(part: string): string {
  return part.replaceAll("%25", "%")
}

function filesChanged(place: VolumePlace): void {
  void reload(["volumes", "files", place], ["volumes", "usage", place])
}

function address({ namespace, name }: VolumePlace): string {
  return `/api/v1/volumes/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`
}
