/** The command palette (Ctrl+K): goes to any page, workflow or run by a few letters. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import { Play, Plus, Workflow } from "lucide-react"
import { type ComponentType, useDeferredValue, useEffect, useId, useState } from "react"
import { type AnyRun, allRunsQuery } from "@/api/argo"
import { useMe } from "@/api/client"
import { workflowsQuery } from "@/api/workflows"
import { Dialog } from "@/components/dialog"
import { Input } from "@/components/form"
import { shellTexts } from "@/i18n/shell"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { NAVIGATION } from "./navigation"

interface Command {
  id: string
  label: string
  detail?: string
  icon: ComponentType<{ className?: string }>
  go: () => unknown
}

const MOST = 6

export function CommandPalette({ open, onClose }: { open: boolean; onClose: () => void }) {
  const w = useTexts(shellTexts)
  return (
    <Dialog open={open} onClose={onClose} title={w("palette")}>
      {open && <Palette onClose={onClose} />}
    </Dialog>
  )
}

/** Opens and closes the palette by keyboard. */
export function usePaletteKey(toggle: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      event.preventDefault()
      toggle()
    }
    addEventListener("keydown", press)
    return () => removeEventListener("keydown", press)
  }, [toggle])
}

function Palette({ onClose }: { onClose: () => void }) {
  const w = useTexts(shellTexts)
  const [text, setText] = useState("")
  const [chosen, setChosen] = useState(0)
  const list = useId()
  const commands = useCommands(text.trim())
  const at = Math.min(chosen, commands.length - 1)
  const run = (command: Command | undefined) => {
    if (!command) return
    onClose()
    void command.go()
  }
  return (
    <>
      <Input
        autoFocus
        role="combobox"
        aria-expanded
        aria-controls={list}
        aria-activedescendant={commands[at] && `${list}-${at}`}
        aria-label={w("paletteHint")}
        placeholder={w("paletteHint")}
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setChosen(0)
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
          if (step) {
            event.preventDefault()
            setChosen((at + step + commands.length) % Math.max(1, commands.length))
          } else if (event.key === "Enter") run(commands[at])
        }}
      />
      <div id={list} role="listbox" aria-label={w("palette")} className="flex max-h-[50vh] flex-col overflow-y-auto">
        {commands.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys of a combobox are those of its field.
          <div
            key={command.id}
            id={`${list}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            ref={(element) => {
              if (index === at) element?.scrollIntoView({ block: "nearest" })
            }}
            onClick={() => run(command)}
            className={classes(
              "flex cursor-pointer items-center gap-2.5 rounded-md px-2.5 py-2",
              index === at ? "bg-accent text-primary" : "hover:bg-muted",
            )}
          >
            <command.icon className="size-4 shrink-0" aria-hidden />
            <span className="min-w-0 flex-1 truncate">{command.label}</span>
            {command.detail && <span className="truncate text-[13px] text-muted-foreground">{command.detail}</span>}
          </div>
        ))}
      </div>
      {!commands.length && <p className="text-muted-foreground">{w("paletteNothing")}</p>}
    </>
  )
}

function useCommands(text: string): Command[] {
  const w = useTexts(shellTexts)
  const me = useMe()
  const navigate = useNavigate()
  const q = useDeferredValue(text)
  const enabled = q.length > 1
  const workflows = useQuery({ ...workflowsQuery({ q, limit: MOST }), enabled, placeholderData: keepPreviousData })
  const runs = useQuery({ ...allRunsQuery({ q, limit: MOST }), enabled, placeholderData: keepPreviousData })
  const places: Command[] = NAVIGATION.filter((place) => !place.for || place.for(me)).map(({ to, word, icon }) => ({
    id: to,
    label: w(word),
    icon,
    go: () => navigate({ to }),
  }))
  const actions: Command[] = (
    [
      ["newWorkflow", "/workflows/new"],
      ["newRun", "/runs/new"],
      ["newJob", "/jobs/new"],
      ["newSchedule", "/schedules/new"],
      ["newNotebook", "/notebooks/new"],
    ] as const
  ).map(([word, to]) => ({ id: to, label: w(word), icon: Plus, go: () => navigate({ to }) }))
  const words = text.toLowerCase().split(/\s+/)
  const fits = ({ label }: Command) => words.every((word) => label.toLowerCase().includes(word))
  const found: Command[] = enabled
    ? [
        ...(workflows.data?.items ?? []).map(({ id, name }) => ({
          id: `workflow ${id}`,
          label: name,
          detail: w("workflows"),
          icon: Workflow,
          go: () => navigate({ to: "/workflows/$workflow", params: { workflow: id } }),
        })),
        ...(runs.data?.items ?? []).map((run) => ({
          id: `run ${run.id}`,
          label: run.name,
          detail: w("runs"),
          icon: Play,
          go: () => navigate(addressOf(run)),
        })),
      ]
    : []
  return [...places.filter(fits), ...actions.filter(fits), ...found]
}

function addressOf({ origin, id, namespace, kind, name }: AnyRun) {
  if (origin === "workflow") return { to: "/runs/$run", params: { run: id } } as const
  if (origin === "pipeline") return { to: "/pipelines/runs/$run", params: { run: id } } as const
  if (origin === "job") return { to: "/jobs/$namespace/$kind/$name", params: { namespace, kind, name } } as const
  return { to: "/runs/argo/$namespace/$name", params: { namespace, name } } as const
}
