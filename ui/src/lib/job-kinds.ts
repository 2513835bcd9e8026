/** How kinds of training jobs are told apart at a glance. */

export interface KindLook {
  /** Two letters on a coloured ground. */
  letters: string
  className: string
}

const LOOKS: [begins: string, look: KindLook][] = [
  ["pytorchjob", { letters: "Pt", className: "bg-orange-200 text-orange-950 dark:bg-orange-900 dark:text-orange-100" }],
  ["tfjob", { letters: "Tf", className: "bg-amber-200 text-amber-950 dark:bg-amber-900 dark:text-amber-100" }],
  ["tensorflowjob", { letters: "Tf", className: "bg-amber-200 text-amber-950 dark:bg-amber-900 dark:text-amber-100" }],
  ["xgboostjob", { letters: "Xg", className: "bg-teal-200 text-teal-950 dark:bg-teal-900 dark:text-teal-100" }],
  ["mpijob", { letters: "Mp", className: "bg-slate-300 text-slate-950 dark:bg-slate-700 dark:text-slate-100" }],
  ["paddlejob", { letters: "Pd", className: "bg-sky-200 text-sky-950 dark:bg-sky-900 dark:text-sky-100" }],
  ["jaxjob", { letters: "Jx", className: "bg-violet-200 text-violet-950 dark:bg-violet-900 dark:text-violet-100" }],
]

export function kindLook(word: string): KindLook {
  const found = LOOKS.find(([begins]) => word === begins || word.startsWith(`${begins}.`))
  return found?.[1] ?? { letters: word.slice(0, 2), className: "bg-muted text-muted-foreground" }
}

/** Two kinds share a name; the one that is not Kubeflow's has its group behind it. */
export function kindTitle(kind: string, word: string): string {
  const group = word.slice(kind.length + 1)
  return group ? `${kind} (${group})` : kind
}
