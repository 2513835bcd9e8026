/**
 * Keeps what is typed into a form until it is sent or given up: an expired login leads to another page, and a reload
 * during a restart of the server empties the form. What was typed is there again when the form is opened the next time.
 * It is kept for this tab only, and without passwords, files and fields with `data-private`.
 */
import { useEffect, useState } from "react"
import { useMe } from "@/api/client"
import { draftKey } from "@/editor/draft"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement
type Typed = Record<string, string | boolean>

const PRIVATE = new Set(["password", "file", "hidden", "submit", "button"])
const PAUSE_MILLISECONDS = 100
/** Options and fields may appear only when something was loaded or chosen. */
const MOST_TRIES = 50

export interface TypedForm {
  /** For the form element. */
  form: (element: HTMLFormElement | null) => void
  isRestored: boolean
  /** After the form was sent or closed. */
  forget: () => void
}

/** `name` tells the forms of a page apart. */
export function useTypedForm(name: string): TypedForm {
  const me = useMe().user.id
  const [key] = useState(() => draftKey(me, `${location.pathname}${location.search} ${name}`))
  const [element, setElement] = useState<HTMLFormElement | null>(null)
  const [isRestored, setRestored] = useState(false)
  useEffect(() => {
    if (!element) return
    let left = read(key)
    let timer: ReturnType<typeof setTimeout> | undefined
    const restore = (tries: number) => {
      const waiting = fill(element, left)
      if (Object.keys(waiting).length < Object.keys(left).length) setRestored(true)
      left = waiting
      if (Object.keys(left).length && tries > 1) timer = setTimeout(() => restore(tries - 1), PAUSE_MILLISECONDS)
    }
    const keep = (event: Event) => {
      // Not our own, while it is restored. Afterwards, because fields may depend on each other.
      if (event.isTrusted) setTimeout(() => write(key, { ...left, ...typedInto(element) }))
    }
    restore(MOST_TRIES)
    element.addEventListener("input", keep)
    element.addEventListener("change", keep)
    return () => {
      clearTimeout(timer)
      element.removeEventListener("input", keep)
      element.removeEventListener("change", keep)
    }
  }, [key, element])
  return { form: setElement, isRestored, forget: () => sessionStorage.removeItem(key) }
}

export function RestoredNote({ typed }: { typed: TypedForm }) {
  const c = useTexts(commonTexts)
  if (!typed.isRestored) return null
  return (
    <p role="status" className="rounded-md border bg-accent px-3 py-2 text-[13px]">
      {c("typedRestored")}
    </p>
  )
}

/** The controls of a form by their names, or by their labels. */
function controlsOf(form: HTMLFormElement): Map<string, Control> {
  const found = new Map<string, Control>()
  for (const each of form.elements) {
    if (!(each instanceof HTMLInputElement || each instanceof HTMLTextAreaElement || each instanceof HTMLSelectElement))
      continue
    if (PRIVATE.has(each.type) || each.disabled || each.dataset.private !== undefined) continue
    const name = each.name || each.labels?.[0]?.textContent || each.ariaLabel || ""
    const choice = each.type === "radio" ? `=${each.value}` : ""
    let unique = name + choice
    for (let number = 2; found.has(unique); number++) unique = `${name}${choice} ${number}`
    found.set(unique, each)
  }
  return found
}

const isTicked = (control: Control): control is HTMLInputElement =>
  control.type === "checkbox" || control.type === "radio"

function typedInto(form: HTMLFormElement): Typed {
  const typed: Typed = {}
  for (const [name, control] of controlsOf(form)) typed[name] = isTicked(control) ? control.checked : control.value
  return typed
}

/** Returns what has no place in the form yet. */
function fill(form: HTMLFormElement, typed: Typed): Typed {
  const left: Typed = {}
  for (const [name, value] of Object.entries(typed)) {
    const control = controlsOf(form).get(name)
    if (!control || (control instanceof HTMLSelectElement && !hasOption(control, String(value)))) left[name] = value
    else if (isTicked(control)) {
      if (control.checked !== value) control.click()
    } else if (control.value !== value || control instanceof HTMLSelectElement) {
      // React notices a value only if it is set as a user would set it. A choice is made again even if it is the
      // default: what is loaded later may change the default.
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(control), "value")?.set?.call(control, value)
      control.dispatchEvent(new Event(control instanceof HTMLSelectElement ? "change" : "input", { bubbles: true }))
    }
  }
  return left
}

function hasOption(select: HTMLSelectElement, value: string): boolean {
  return [...select.options].some((option) => option.value === value)
}

function write(key: string, typed: Typed): void {
  try {
    sessionStorage.setItem(key, JSON.stringify(typed))
  } catch {
    // The storage is full or forbidden. The form works without it.
  }
}

function read(key: string): Typed {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "{}") as Typed
  } catch {
    return {}
  }
}
