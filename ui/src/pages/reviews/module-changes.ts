/** What differs between two versions of a module. */
import type { ModuleVersionDetail } from "@/api/modules"

export const PLAIN_FIELDS = ["git_url", "git_ref", "git_commit", "dockerfile", "build_dir", "readme_path"] as const
export const LIST_FIELDS = ["env", "inputs", "outputs"] as const

type Compared = Pick<
  ModuleVersionDetail,
  (typeof PLAIN_FIELDS)[number] | (typeof LIST_FIELDS)[number] | "entrypoint" | "readme"
>

export interface ModuleChange {
  field: keyof Compared
  /** The name of an entry in a list. */
  name?: string
  action: "added" | "removed" | "changed"
  before: string
  after: string
}

/** `before` is undefined for the first version: everything is new. */
export function moduleChanges(before: Compared | undefined, after: Compared): ModuleChange[] {
  const changes: ModuleChange[] = []
  const compare = (field: keyof Compared, was: string, is: string, name?: string) => {
    if (was === is) return
    const action = was === "" ? "added" : is === "" ? "removed" : "changed"
    changes.push({ field, ...(name === undefined ? {} : { name }), action, before: was, after: is })
  }
  for (const field of PLAIN_FIELDS) compare(field, before?.[field] ?? "", after[field])
  compare("entrypoint", (before?.entrypoint ?? []).join(" "), after.entrypoint.join(" "))
  for (const field of LIST_FIELDS) {
    const was = byName(before?.[field] ?? [])
    const is = byName(after[field])
    for (const name of new Set([...was.keys(), ...is.keys()]))
      compare(field, was.get(name) ?? "", is.get(name) ?? "", name)
  }
  compare("readme", before?.readme.trimEnd() ?? "", after.readme.trimEnd())
  return changes
}

/** The version to compare with: the one published, or published before this one. */
export function comparedWith(versions: { number: number; state: string }[], number: number): number | undefined {
  const shared = versions
    .filter(({ state }) => state === "published" || state === "deprecated")
    .map((each) => each.number)
  const before = shared.filter((each) => each < number)
  const others = before.length ? before : shared.includes(number) ? [] : shared
  return others.length ? Math.max(...others) : undefined
}

function byName(list: { name: string }[]): Map<string, string> {
  return new Map(list.map((each) => [each.name, told(each)]))
}

function told(each: {
  name: string
  value?: string
  secret?: boolean
  path?: string
  type?: string
  description?: string
}): string {
  const value = each.value === undefined ? [] : [`${each.name}=${each.secret ? "***" : each.value}`]
  const place = each.path === undefined ? [] : [`${each.name}: ${each.type} ${each.path}`]
  const plain = value.length || place.length ? [] : [each.name]
  return [...value, ...place, ...plain, ...(each.description ? [each.description] : [])].join("\n")
}
