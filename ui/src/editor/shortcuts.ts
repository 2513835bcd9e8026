/** Keyboard shortcuts of the canvas. They do nothing while the user types in a field. */
import { useEffect } from "react"
import type { Drawing } from "@/graph/drawing"
import { type CanvasStore, copyOf } from "./store"

const FORMAT = "muster/nodes"

export function useShortcuts(store: CanvasStore, save: () => void): void {
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const command = event.ctrlKey || event.metaKey
      const letter = event.key.toLowerCase()
      if (command && letter === "s") {
        event.preventDefault()
        save()
        return
      }
      if (isTyping(event.target)) return
      const canvas = store.getState()
      const act = command && commands[event.shiftKey ? `shift+${letter}` : letter]
      if (act) {
        event.preventDefault()
        act()
      } else if (event.key === "Delete" || event.key === "Backspace") canvas.removeSelected()
      else if (event.key === "Escape") canvas.select([])
    }
    const commands: Record<string, () => void> = {
      z: () => store.getState().undo(),
      "shift+z": () => store.getState().redo(),
      y: () => store.getState().redo(),
      d: () => duplicate(store),
      a: () => store.getState().select(store.getState().drawing.nodes.map((node) => node.key)),
    }
    const copy = (event: ClipboardEvent) => {
      const copied = !isTyping(event.target) && !getSelection()?.toString() && copyOf(store.getState())
      if (!copied || !event.clipboardData) return
      event.preventDefault()
      event.clipboardData.setData("text/plain", JSON.stringify({ [FORMAT]: copied }))
      if (event.type === "cut") store.getState().removeSelected()
    }
    const paste = (event: ClipboardEvent) => {
      const copied = isTyping(event.target) ? undefined : readCopy(event.clipboardData?.getData("text/plain") ?? "")
      if (!copied) return
      event.preventDefault()
      store.getState().paste(copied, { x: 32, y: 32 })
    }
    addEventListener("keydown", key)
    document.addEventListener("copy", copy)
    document.addEventListener("cut", copy)
    document.addEventListener("paste", paste)
    return () => {
      removeEventListener("keydown", key)
      document.removeEventListener("copy", copy)
      document.removeEventListener("cut", copy)
      document.removeEventListener("paste", paste)
    }
  }, [store, save])
}

export function duplicate(store: CanvasStore): void {
  const copied = copyOf(store.getState())
  if (copied) store.getState().paste(copied, { x: 32, y: 32 })
}

function readCopy(text: string): Drawing | undefined {
  if (!text.startsWith("{") || !text.includes(FORMAT)) return undefined
  try {
    const found = (JSON.parse(text) as Record<string, Drawing>)[FORMAT]
    return found && Array.isArray(found.nodes) && Array.isArray(found.edges) ? found : undefined
  } catch {
    return undefined
  }
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}
