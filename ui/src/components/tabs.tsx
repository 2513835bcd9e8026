import { Tabs as Radix } from "radix-ui"
import { type ReactNode, useEffect, useRef } from "react"
import { classes } from "@/lib/classes"

export interface Tab {
  id: string
  label: ReactNode
  content: ReactNode
}

interface Props {
  tabs: Tab[]
  /** The tab in the address. The first one is shown if it is none of these. */
  value?: string
  onChange?: (id: string) => void
  className?: string
  /** Class names of each tab's content. */
  inside?: string
}

export function Tabs({ tabs, value: asked, onChange, className, inside }: Props) {
  const list = useRef<HTMLDivElement>(null)
  const first = tabs[0]?.id
  const value = onChange && (tabs.some((tab) => tab.id === asked) ? asked : first)
  // biome-ignore lint/correctness/useExhaustiveDependencies: on a phone, a newly chosen tab may be outside the visible part.
  useEffect(() => {
    if (list.current) scrollToActive(list.current)
  }, [value])
  return (
    <Radix.Root
      value={value}
      defaultValue={value === undefined ? first : undefined}
      onValueChange={onChange}
      className={classes("flex min-h-0 flex-col", className)}
    >
      <Radix.List ref={list} className="flex shrink-0 gap-x-1 border-b max-sm:overflow-x-auto sm:flex-wrap">
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.id}
            value={tab.id}
            className="-mb-px border-b-2 border-transparent px-3 py-2 text-[13px] font-medium whitespace-nowrap text-muted-foreground hover:text-foreground data-[state=active]:border-primary data-[state=active]:text-foreground"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.id} value={tab.id} className={classes("min-h-0 flex-1 outline-offset-[-2px]", inside)}>
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  )
}

/** Scrolls the tabs sideways, and not the page: they may be far below its top. */
function scrollToActive(list: HTMLElement): void {
  const active = list.querySelector("[data-state=active]")?.getBoundingClientRect()
  if (!active) return
  const { left, right } = list.getBoundingClientRect()
  if (active.right > right) list.scrollLeft += active.right - right
  else if (active.left < left) list.scrollLeft -= left - active.left
}
