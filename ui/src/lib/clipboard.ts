/** Browsers give the clipboard only to pages that came over HTTPS; elsewhere the old way, of what is selected, works. */
export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const field = document.createElement("textarea")
    field.value = text
    field.className = "fixed"
    document.body.append(field)
    field.select()
    const done = document.execCommand("copy")
    field.remove()
    return done
  }
}
