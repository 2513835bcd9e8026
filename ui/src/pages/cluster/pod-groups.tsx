/** The PodGroups: gangs of Pods that start together. */

import { useQuery } from "@tanstack/react-query"
import { Link } from "@tanstack/react-router"
import { Group } from "lucide-react"
import { useMemo } from "react"
import { type PodGroup, podGroupsQuery, queuesQuery } from "@/api/cluster"
import { Badge, type Tone } from "@/components/badge"
import { Button } from "@/components/button"
import { type Column, DataTable } from "@/components/data-table"
import { Empty, Loading, ProblemView } from "@/components/feedback"
import { Filters } from "@/components/filters"
import { Select } from "@/components/form"
import { usePage } from "@/components/listing"
import { Time } from "@/components/time"
import { clusterTexts } from "@/i18n/cluster"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"

const PHASES: Record<string, { word: keyof typeof clusterTexts; tone: Tone }> = {
  Pending: { word: "phasePending", tone: "waiting" },
  Inqueue: { word: "phaseInqueue", tone: "warning" },
  Scheduling: { word: "phaseScheduling", tone: "warning" },
  Running: { word: "phaseRunning", tone: "running" },
  Unknown: { word: "phaseUnknown", tone: "warning" },
  Completed: { word: "phaseCompleted", tone: "succeeded" },
  Finished: { word: "phaseFinished", tone: "succeeded" },
  Failed: { word: "phaseFailed", tone: "failed" },
}

interface Props {
  queue?: string
  phase?: string
  choose: (change: { queue?: string; phase?: string }) => void
}

export function Groups({ queue, phase, choose }: Props) {
  const w = useTexts(clusterTexts)
  const c = useTexts(commonTexts)
  const found = usePage(podGroupsQuery({ queue, phase }))
  const queues = useQuery(queuesQuery).data?.items ?? []
  const columns = useMemo(
    (): Column<PodGroup & { key: string }>[] => [
      {
        id: "name",
        header: c("name"),
        cell: (group) => (
          <div className="max-w-xs">
            <div className="truncate font-medium">
              {group.name ?? <span className="font-normal text-muted-foreground">{w("hidden")}</span>}
            </div>
            {group.run_id && (
              <Link to="/runs/$run" params={{ run: group.run_id }} className="text-[13px] text-primary hover:underline">
                {group.run_name}
              </Link>
            )}
          </div>
        ),
      },
      {
        id: "phase",
        header: w("phase"),
        cell: (group) => <PodGroupPhase phase={group.phase} />,
      },
      { id: "members", header: w("members"), cell: ({ running, members }) => w("membersOf", { running, members }) },
      {
        id: "reason",
        header: w("reason"),
        cell: ({ reason, message }) =>
          reason ? (
            <div className="max-w-md min-w-48 text-[13px]">
              <div className="font-medium">{reason}</div>
              <div className="text-muted-foreground">{message}</div>
            </div>
          ) : (
            "–"
          ),
      },
      { id: "queue", header: w("queue"), cell: (group) => group.cluster_name ?? (group.queue || "–") },
      { id: "owner", header: w("owner"), cell: ({ owner_name }) => owner_name ?? "–" },
      { id: "created", header: w("created"), cell: ({ created }) => <Time at={created} /> },
    ],
    [w, c],
  )
  const groups = found.data?.items
  return (
    <div className="flex flex-col gap-3">
      <Filters>
        <Select
          aria-label={w("queue")}
          className="w-auto max-w-full"
          value={queue ?? ""}
          onChange={(event) => choose({ queue: event.target.value || undefined })}
        >
          <option value="">{w("allQueues")}</option>
          {queues.map(({ name, cluster_name }) => (
            <option key={name} value={name}>
              {cluster_name ?? name}
            </option>
          ))}
          {queue && !queues.some(({ name }) => name === queue) && <option value={queue}>{queue}</option>}
        </Select>
        <Select
          aria-label={w("phase")}
          className="w-auto"
          value={phase ?? ""}
          onChange={(event) => choose({ phase: event.target.value || undefined })}
        >
          <option value="">{w("allPhases")}</option>
          {Object.entries(PHASES).map(([value, { word }]) => (
            <option key={value} value={value}>
              {w(word)}
              {value === "Finished" ? " (scheduler-plugins)" : ""}
            </option>
          ))}
        </Select>
      </Filters>
      <ProblemView error={found.error} retry={() => void found.refetch()} />
      {found.isPending && <Loading />}
      {groups &&
        (groups.length ? (
          <>
            <DataTable
              label={w("groups")}
              columns={columns}
              rows={groups.map((group, index) => ({ ...group, key: String(index) }))}
              rowId={({ key }) => key}
              busy={found.isPlaceholderData}
            />
            {found.data && found.data.total > groups.length && (
              <p className="text-[13px] text-muted-foreground">
                {w("truncated", { shown: groups.length, total: found.data.total })}
              </p>
            )}
          </>
        ) : queue || phase ? (
          <Empty
            title={c("nothingFound")}
            actions={
              <Button onClick={() => choose({ queue: undefined, phase: undefined })}>{c("clearFilters")}</Button>
            }
          />
        ) : (
          <Empty icon={Group} title={w("noGroups")}>
            {w("noGroupsHelp")}
          </Empty>
        ))}
    </div>
  )
}

export function PodGroupPhase({ phase }: { phase: string }) {
  const w = useTexts(clusterTexts)
  const known = PHASES[phase]
  return <Badge tone={known?.tone ?? "plain"}>{known ? w(known.word) : phase}</Badge>
}
