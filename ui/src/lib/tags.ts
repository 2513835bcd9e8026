/** Tags of runs: KEY or KEY=VALUE. The server has the last word on their form (platform/runs/tags.py). */

const KEY = /^[\p{L}\p{N}](?:[\p{L}\p{N}_./-]{0,61}[\p{L}\p{N}])?$/u

export function isTag(text: string): boolean {
  const { key, value } = splitTag(text)
  return KEY.test(key) && (value === undefined || (value.trim() === value && value.length > 0 && value.length <= 200))
}

export function splitTag(text: string): { key: string; value: string | undefined } {
  const at = text.indexOf("=")
  return at < 0 ? { key: text, value: undefined } : { key: text.slice(0, at), value: text.slice(at + 1) }
}

/** With this one, which replaces one with the same key. */
export function addTag(tags: readonly string[], tag: string): string[] {
  const { key } = splitTag(tag)
  return [...tags.filter((each) => splitTag(each).key !== key), tag]
}
