/** What a terminal in the browser and the server say to each other. */

export interface TerminalPlace {
  namespace: string
  pod: string
  container?: string
}

/** The address of the WebSocket, on the origin of this page. */
export function terminalUrl({ namespace, pod, container }: TerminalPlace, page: URL = new URL(location.href)): string {
  const url = new URL(
    `/api/v1/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(pod)}/terminal`,
    page.origin.replace(/^http/, "ws"),
  )
  if (container) url.searchParams.set("container", container)
  return url.href
}

/** What the last text message of the server says; undefined if it is none. */
export function readEnd(text: string): { exit?: number; error?: string } | undefined {
  try {
    const said: unknown = JSON.parse(text)
    return typeof said === "object" && said !== null ? said : undefined
  } catch {
    return undefined
  }
}
