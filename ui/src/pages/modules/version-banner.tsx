/** The state of a module version, and what can be done about it. */

import { Link } from "@tanstack/react-router"
import { Archive, CircleX, Eye, LoaderCircle, Lock, TriangleAlert } from "lucide-react"
import { type ReactNode, useState } from "react"
import {
  askReview,
  decideReview,
  type Module,
  type ModuleVersion,
  type ModuleVersionDetail,
  type Review,
  stepModule,
} from "@/api/modules"
import { Button } from "@/components/button"
import { Confirm, Dialog } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { Field, TextArea } from "@/components/form"
import { note, noteError } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { moduleTexts, reviewTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"

/** Requests the publication of a version. */
export function AskReview({ module, version, close }: { module: Module; version: ModuleVersion; close: () => void }) {
  const w = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const [message, setMessage] = useState("")
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const ask = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await askReview(module.name, version.number, message)
      note(w("asked"))
      close()
    } catch (thrown) {
      setError(thrown)
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onClose={close}
      title={w("askTitle", { name: module.name, n: version.number })}
      actions={
        <>
          <Button onClick={close}>{c("cancel")}</Button>
          <Button look="primary" disabled={busy} onClick={() => void ask()}>
            {w("ask")}
          </Button>
        </>
      }
    >
      <p>{w("askHelp")}</p>
      <Field label={w("askMessage")} optional>
        {(field) => (
          <TextArea {...field} rows={3} value={message} onChange={(event) => setMessage(event.target.value)} />
        )}
      </Field>
      <ProblemView error={error} />
    </Dialog>
  )
}

interface Props {
  module: Module
  version: ModuleVersionDetail
  /** The latest review. */
  review: Review | undefined
  showLog: () => void
}

export function VersionBanner({ module, version, review, showLog }: Props) {
  const w = useTexts(moduleTexts)
  const r = useTexts(reviewTexts)
  const [asking, setAsking] = useState<"review" | "withdraw">()
  const edits = module.may.includes("edit")
  const step = (step: "stop" | "retry" | "restore") => () =>
    void stepModule(module.name, version.number, step).catch(noteError)
  const ask = module.may.includes("ask review") && version.steps.includes("ask review") && (
    <Button look="primary" size="small" onClick={() => setAsking("review")}>
      {w(version.state === "rejected" ? "askAgain" : "ask")}
    </Button>
  )
  const log = module.may.includes("inspect") && (
    <Button size="small" onClick={showLog}>
      {w("showLog")}
    </Button>
  )
  const edit = edits && (
    <Button asChild size="small">
      <Link to="/modules/$module/edit" params={{ module: module.name }}>
        {w("edit")}
      </Link>
    </Button>
  )
  const open = review && (
    <Button asChild size="small">
      <Link to="/reviews/$review" params={{ review: review.id }}>
        {w("openReview")}
      </Link>
    </Button>
  )
  return (
    <>
      {version.state === "building" && (
        <Banner icon={LoaderCircle} spin tone="border-running/40 bg-running/8 text-running" title={w("saysBuilding")}>
          {edits && version.steps.includes("stop") && (
            <Button size="small" onClick={step("stop")}>
              {w("stop")}
            </Button>
          )}
        </Banner>
      )}
      {version.state === "build failed" && (
        <Banner
          icon={TriangleAlert}
          tone="border-failed/40 bg-failed/8 text-failed"
          title={w("saysFailed")}
          reason={version.reason}
        >
          {log}
          {edit}
          {edits && (
            <Button look="primary" size="small" onClick={step("retry")}>
              {w("retry")}
            </Button>
          )}
        </Banner>
      )}
      {version.state === "private" && (
        <Banner icon={Lock} tone="text-muted-foreground" title={w(ask ? "saysPrivateAsk" : "saysPrivate")}>
          {ask}
        </Banner>
      )}
      {version.state === "in review" && (
        <Banner icon={Eye} tone="border-warning/40 bg-warning/8 text-warning" title={w("saysInReview")}>
          {open}
          {review?.may.includes("withdraw") && (
            <Button size="small" onClick={() => setAsking("withdraw")}>
              {w("withdraw")}
            </Button>
          )}
        </Banner>
      )}
      {version.state === "rejected" && (
        <Banner
          icon={CircleX}
          tone="border-failed/40 bg-failed/8 text-failed"
          title={w("saysRejected")}
          reason={version.reason}
        >
          {open}
          {edit}
          {ask}
        </Banner>
      )}
      {version.state === "deprecated" && (
        <Banner icon={Archive} tone="text-muted-foreground" title={w("saysDeprecated")}>
          {module.may.includes("deprecate") && (
            <Button size="small" onClick={step("restore")}>
              {w("restore")}
            </Button>
          )}
        </Banner>
      )}
      {asking === "review" && <AskReview module={module} version={version} close={() => setAsking(undefined)} />}
      {review && (
        <Confirm
          open={asking === "withdraw"}
          onClose={() => setAsking(undefined)}
          title={w("withdrawTitle")}
          lead={w("withdrawHelp")}
          action={w("withdraw")}
          onConfirm={async () => {
            await decideReview(review.id, "withdraw")
            note(r("withdrawnNow"))
          }}
        />
      )}
    </>
  )
}

interface BannerProps {
  icon: typeof Lock
  spin?: boolean
  tone: string
  title: string
  reason?: string
  children?: ReactNode
}

function Banner({ icon: Icon, spin, tone, title, reason, children }: BannerProps) {
  return (
    <div
      role="status"
      className={classes("flex flex-wrap items-center gap-x-4 gap-y-2 rounded-lg border bg-card px-4 py-3", tone)}
    >
      <Icon aria-hidden className={classes("size-4 shrink-0", spin && "animate-spin")} />
      <div className="min-w-0 flex-1 basis-64">
        <p className="font-medium text-foreground">{title}</p>
        {reason && <p className="break-words whitespace-pre-line text-foreground">{reason}</p>}
      </div>
      <div className="flex flex-wrap gap-2 text-foreground">{children}</div>
    </div>
  )
}
