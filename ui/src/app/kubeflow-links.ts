/** Addresses of Kubeflow Pipelines' own UI, which kfp.Client prints: `/#/runs/details/ID`. */

const PAGES: [RegExp, (found: string[]) => string][] = [
  [/^runs\/details\/([^/]+)$/, ([id]) => `/pipelines/runs/${id}`],
  [/^experiments\/details\/([^/]+)$/, ([id]) => `/pipelines/experiments/${id}`],
  [/^pipelines\/details\/([^/]+)$/, ([id]) => `/pipelines/${id}`],
  [/^pipelines\/details\/([^/]+)\/version\/([^/]+)$/, ([id, version]) => `/pipelines/${id}/versions/${version}`],
  [/^recurringrun\/details\/([^/]+)$/, ([id]) => `/pipelines/recurring/${id}`],
]

/** Returns our address for the part of theirs after the `#`, or undefined if it is not one of theirs. */
export function kubeflowAddress(hash: string): string | undefined {
  const [path = ""] = hash.replace(/^#?\//, "").split("?")
  for (const [pattern, address] of PAGES) {
    const found = pattern.exec(path)
    if (found !== null) return address(found.slice(1).map((part) => encodeURIComponent(part)))
  }
  return undefined
}
