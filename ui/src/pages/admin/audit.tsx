import { ScrollText } from "lucide-react"
import { useMemo } from "react"
import { type AuditEntry, auditQuery } from "@/api/admin"
import { usePreferences } from "@/app/preferences"
import type { Column } from "@/components/data-table"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Input, Select } from "@/components/form"
import { Listing, usePage } from "@/components/listing"
import { adminTexts, auditActionTexts, auditKindTexts } from "@/i18n/admin"
import { translate, useTexts } from "@/i18n/translate"
import { fromLocalInput, moment, toLocalInput } from "@/lib/times"
import { useAdminList } from "./managed-list"

const WAYS = { session: "viaSession", token: "viaToken", link: "viaLink", system: "viaSystem" } as const

export function Audit() {
  const w = useTexts(adminTexts)
  const language = usePreferences((all) => all.language)
  const { search, asked, shown, filter, clear } = useAdminList("-at")
  const { q, actor, kind, action, since, until } = search
  const found = usePage(auditQuery({ q, actor, kind, action, since, until, ...asked }))
  const columns = useMemo((): Column<AuditEntry>[] => {
    const named = (all: Record<string, readonly [string, string]>, key: string) =>
      all[key] ? translate(all[key], language) : key
    return [
      {
        id: "at",
        header: w("when"),
        sort: "at",
        cell: ({ at }) => (
          <time dateTime={at} className="text-[13px] whitespace-nowrap">
            {moment(at, language)}
          </time>
        ),
      },
      {
        id: "actor",
        header: w("actor"),
        sort: "actor",
        cell: ({ actor_name }) => (
          <button type="button" className="text-primary hover:underline" onClick={() => filter({ actor: actor_name })}>
            {actor_name}
          </button>
        ),
      },
      {
        id: "action",
        header: w("action"),
        sort: "action",
        className: "whitespace-nowrap",
        cell: (entry) => named(auditActionTexts, entry.action),
      },
      {
        id: "subject",
        header: w("subject"),
        className: "min-w-40",
        cell: (entry) => (
          <span>
            <span className="text-muted-foreground">{named(auditKindTexts, entry.kind)}</span>{" "}
            <span className="font-medium">{entry.subject_name}</span>
          </span>
        ),
      },
      {
        id: "via",
        header: w("via"),
        cell: ({ via, address }) => (
          <span className="text-[13px] whitespace-nowrap">
            {via in WAYS ? w(WAYS[via as keyof typeof WAYS]) : via}
            {address && <span className="text-muted-foreground"> · {address}</span>}
          </span>
        ),
      },
      {
        id: "details",
        header: w("details"),
        className: "min-w-40",
        cell: ({ details }) => <Details details={details} label={w("details")} />,
      },
    ]
  }, [w, language, filter])
  const isFiltered = Boolean(q || actor || kind || action || since || until)
  return (
    <>
      <Filters>
        <SearchBox label={w("searchAudit")} value={q ?? ""} onChange={(text) => filter({ q: text || undefined })} />
        <SearchBox
          label={w("actor")}
          className="w-40"
          value={actor ?? ""}
          onChange={(text) => filter({ actor: text || undefined })}
        />
        <Select
          aria-label={w("kind")}
          className="w-auto"
          value={kind ?? ""}
          onChange={(event) => filter({ kind: event.target.value || undefined })}
        >
          <option value="">{w("allKinds")}</option>
          {Object.entries(auditKindTexts).map(([each, pair]) => (
            <option key={each} value={each}>
              {translate(pair, language)}
            </option>
          ))}
        </Select>
        <Select
          aria-label={w("action")}
          className="w-auto"
          value={action ?? ""}
          onChange={(event) => filter({ action: event.target.value || undefined })}
        >
          <option value="">{w("allActions")}</option>
          {Object.entries(auditActionTexts).map(([each, pair]) => (
            <option key={each} value={each}>
              {translate(pair, language)}
            </option>
          ))}
        </Select>
        <When label={w("from")} value={since} change={(since) => filter({ since })} />
        <When label={w("until")} value={until} change={(until) => filter({ until })} />
      </Filters>
      <Listing
        label={w("audit")}
        found={found}
        columns={columns}
        rowId={(entry) => entry.id}
        {...shown}
        clear={isFiltered ? clear : undefined}
        empty={<Empty icon={ScrollText} title={w("noAudit")} />}
      />
    </>
  )
}

function When({
  label,
  value,
  change,
}: {
  label: string
  value?: string
  change: (value: string | undefined) => void
}) {
  return (
    <label className="inline-flex items-center gap-1.5 text-[13px]">
      {label}
      <Input
        type="datetime-local"
        className="w-auto"
        value={toLocalInput(value)}
        onChange={(event) => change(fromLocalInput(event.target.value))}
      />
    </label>
  )
}

function Details({ details, label }: { details: Record<string, unknown>; label: string }) {
  const all = Object.entries(details)
  if (!all.length) return <>–</>
  const [first] = all
  const short = all.length === 1 && first && typeof first[1] !== "object"
  if (short) return <code className="font-mono text-[13px] break-all">{`${first[0]}: ${String(first[1])}`}</code>
  return (
    <details className="max-w-md text-[13px]">
      <summary className="cursor-pointer text-primary">
        {label} ({all.length})
      </summary>
      <dl className="mt-1 grid grid-cols-[auto_1fr] gap-x-3 gap-y-0.5 font-mono">
        {all.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted-foreground">{name}</dt>
            <dd className="break-all">{typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}
