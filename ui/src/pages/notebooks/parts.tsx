/** What the pages of notebooks and TensorBoards share: state, progress, owner, and the actions. */
import { useNavigate } from "@tanstack/react-router"
import {
  CircleCheck,
  CirclePause,
  CircleX,
  ExternalLink,
  LoaderCircle,
  Pencil,
  Play,
  RotateCw,
  Square,
  Trash2,
  TriangleAlert,
} from "lucide-react"
import {
  changeWorkspace,
  deleteNotebook,
  deleteTensorBoard,
  openWorkspace,
  placeOfWorkspace,
  type Workspace,
  type WorkspaceKind,
  type WorkspaceState,
} from "@/api/workspaces"
import { usePreferences } from "@/app/preferences"
import { type Action, Actions } from "@/components/actions"
import { Badge, type Tone } from "@/components/badge"
import { Button } from "@/components/button"
import { Meter } from "@/components/meter"
import { note, noteError } from "@/components/toasts"
import { statusMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { notebookTexts, tensorBoardTexts, workspaceTexts } from "@/i18n/workspaces"

export const STATES: WorkspaceState[] = ["starting", "running", "stopped", "failed"]

const LOOKS: Record<WorkspaceState, { tone: Tone; icon: typeof CircleX; turns?: boolean }> = {
  starting: { tone: "running", icon: LoaderCircle, turns: true },
  running: { tone: "succeeded", icon: CircleCheck },
  stopped: { tone: "waiting", icon: CirclePause },
  failed: { tone: "failed", icon: CircleX },
  deleting: { tone: "waiting", icon: Trash2 },
}

export function WorkspaceStateBadge({ state }: { state: WorkspaceState }) {
  const w = useTexts(workspaceTexts)
  const { tone, icon: Icon, turns } = LOOKS[state]
  return (
    <Badge tone={tone}>
      <Icon aria-hidden className={turns ? "animate-spin" : ""} />
      {w(state)}
    </Badge>
  )
}

/** The state, and how far the installation of the environment is. */
export function WorkspaceStatus({ workspace }: { workspace: Workspace }) {
  const reason = useReason(workspace)
  return (
    <div className="flex flex-col items-start gap-1">
      <WorkspaceStateBadge state={workspace.state} />
      {workspace.progress ? (
        <Progress workspace={workspace} />
      ) : (
        workspace.state !== "running" &&
        reason && (
          <p className="line-clamp-2 max-w-64 text-[13px] text-muted-foreground" title={reason}>
            {reason}
          </p>
        )
      )}
    </div>
  )
}

export function Progress({ workspace, wide }: { workspace: Workspace; wide?: boolean }) {
  const w = useTexts(workspaceTexts)
  const language = usePreferences((all) => all.language)
  if (!workspace.progress) return null
  const { text, text_parts, fraction } = workspace.progress
  const percent = Math.floor(fraction * 100)
  return (
    <div className={wide ? "w-full max-w-xl" : "w-44"}>
      <Meter
        label={w("installing", { name: workspace.name })}
        value={fraction}
        max={1}
        text={`${percent}%`}
        full="running"
      />
      <p className="text-[13px] break-words text-muted-foreground">
        {statusMessage({ message: text, message_parts: text_parts }, language)} · {percent}%
      </p>
    </div>
  )
}

/** Why it does not run, and how far it is. */
export function WorkspaceBanner({ workspace }: { workspace: Workspace }) {
  const w = useTexts(workspaceTexts)
  const reason = useReason(workspace)
  if (workspace.progress)
    return (
      <section aria-label={w("installing", { name: workspace.name })} className="rounded-lg border bg-card p-4">
        <p className="mb-2 font-medium">{w("installing", { name: workspace.name })}</p>
        <Progress workspace={workspace} wide />
      </section>
    )
  if (workspace.state === "running" || workspace.state === "stopped" || !reason) return null
  return (
    <section aria-label={w("why")} className="flex gap-3 rounded-md border border-warning/50 bg-warning/8 p-3">
      <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warning" />
      <div className="min-w-0">
        <p className="font-medium">{w("why")}</p>
        <p className="text-[13px] break-words text-muted-foreground">{reason}</p>
      </div>
    </section>
  )
}

/** Why it does not run, in the user's language. */
function useReason({ reason, reason_parts }: Workspace): string {
  const language = usePreferences((all) => all.language)
  return statusMessage({ message: reason, message_parts: reason_parts }, language)
}

/** Opens it in a new tab. */
export function OpenButton({ workspace, small }: { workspace: Workspace; small?: boolean }) {
  const w = useTexts(workspaceTexts)
  if (!workspace.may.includes("open")) return null
  return (
    <Button
      look="primary"
      size={small ? "small" : undefined}
      aria-label={small ? `${w("open")}: ${workspace.name}` : undefined}
      onClick={() => void openWorkspace(workspace.uid).catch(noteError)}
    >
      <ExternalLink />
      {w("open")}
    </Button>
  )
}

interface ActionsProps {
  kind: WorkspaceKind
  workspace: Workspace
  /** The home volume of a notebook. */
  home?: string
  /** As buttons instead of a menu. */
  open?: boolean
}

export function WorkspaceActions({ kind, workspace, home, open }: ActionsProps) {
  const w = useTexts(workspaceTexts)
  const n = useTexts(notebookTexts)
  const t = useTexts(tensorBoardTexts)
  const navigate = useNavigate()
  const { name, may, state } = workspace
  const place = placeOfWorkspace(workspace)
  const isNotebook = kind === "notebooks"
  const remove = async (withHome: boolean) => {
    await (isNotebook ? deleteNotebook(place, withHome) : deleteTensorBoard(place))
    note(w("deleted", { name }))
    void navigate({ to: isNotebook ? "/notebooks" : "/tensorboards" })
  }
  const allowed = (action: string, what: Action): Action | undefined => (may.includes(action) ? what : undefined)
  const ask = (title: "stopTitle" | "restartTitle", lead: "stopHelp" | "restartHelp") =>
    isNotebook && state === "running" ? { title: w(title, { name }), lead: w(lead) } : undefined
  return (
    <Actions
      name={name}
      open={open}
      actions={[
        allowed("start", {
          label: w("start"),
          icon: <Play />,
          primary: true,
          run: () => changeWorkspace(kind, place, "start"),
        }),
        allowed("stop", {
          label: w("stop"),
          icon: <Square />,
          confirm: ask("stopTitle", "stopHelp"),
          run: () => changeWorkspace(kind, place, "stop"),
        }),
        allowed("restart", {
          label: w("restart"),
          icon: <RotateCw />,
          confirm: ask("restartTitle", "restartHelp"),
          run: () => changeWorkspace(kind, place, "restart"),
        }),
        isNotebook
          ? allowed("edit", {
              label: n("edit"),
              icon: <Pencil />,
              run: () => navigate({ to: "/notebooks/$namespace/$name/edit", params: place }),
            })
          : undefined,
        allowed("delete", {
          label: w("delete"),
          icon: <Trash2 />,
          danger: true,
          confirm: { title: w("deleteTitle", { name }), lead: isNotebook ? n("deleteHelp") : t("deleteHelp") },
          run: () => remove(false),
        }),
        home
          ? allowed("delete", {
              label: n("deleteWithHome"),
              icon: <Trash2 />,
              danger: true,
              confirm: { title: w("deleteTitle", { name }), lead: n("deleteWithHomeHelp", { home }) },
              run: () => remove(true),
            })
          : undefined,
      ]}
    />
  )
}
