/** Submitting a job: a manifest that the server checks while it is written. */

import { getRouteApi, Link, useNavigate } from "@tanstack/react-router"
import { CircleAlert, CircleCheck, TriangleAlert } from "lucide-react"
import { type DragEvent, useEffect, useMemo, useRef, useState } from "react"
import { type CheckedManifest, checkJobs, createJobs, type ManifestProblem, placeOf } from "@/api/jobs"
import { usePreferences } from "@/app/preferences"
import { Button } from "@/components/button"
import { CodeEditor, goToLine, type Mark } from "@/components/code"
import { Confirm, LeaveGuard } from "@/components/dialog"
import { ProblemView } from "@/components/feedback"
import { ManifestFileButton } from "@/components/file-button"
import { Field } from "@/components/form"
import { DraftOffer, useFormDraft } from "@/components/form-draft"
import { OwnTeamField } from "@/components/own-team-field"
import { Page } from "@/components/page"
import { note, noteError } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { editorTexts } from "@/i18n/editor"
import { jobTexts } from "@/i18n/jobs"
import { serverMessage } from "@/i18n/server-messages"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { type JobKind, skeleton } from "@/lib/job-manifest"
import { KindBadge } from "./badges"
import jax from "./examples/jaxjob.yaml?raw"
import mpi from "./examples/mpijob.yaml?raw"
import paddleCloud from "./examples/paddlecloud.yaml?raw"
import paddle from "./examples/paddlejob.yaml?raw"
import pytorch from "./examples/pytorchjob.yaml?raw"
import tensorflow from "./examples/tfjob.yaml?raw"
import xgboost from "./examples/xgboostjob.yaml?raw"
import { JobForm } from "./form"

export interface ManifestCheck {
  problems: CheckedManifest["problems"]
  jobs: CheckedManifest["jobs"]
  busy: boolean
  error?: unknown
}

const NOTHING: ManifestCheck = { problems: [], jobs: [], busy: false }

/** Checks a manifest on the server after each pause in typing. */
export function useManifestCheck(text: string): ManifestCheck {
  const [found, setFound] = useState<ManifestCheck>(NOTHING)
  useEffect(() => {
    if (!text.trim()) return setFound(NOTHING)
    const asked = new AbortController()
    setFound((before) => ({ ...before, busy: true }))
    const timer = setTimeout(() => {
      checkJobs(text, asked.signal)
        .then(({ problems, jobs }) => setFound({ problems, jobs, busy: false }))
        .catch((error: unknown) => !asked.signal.aborted && setFound({ ...NOTHING, error }))
    }, 350)
    return () => {
      clearTimeout(timer)
      asked.abort()
    }
  }, [text])
  return found
}

export interface Example {
  kind: string
  word: string
  text: string
}

export const EXAMPLES: Example[] = [
  { kind: "PyTorchJob", word: "pytorchjob", text: pytorch },
  { kind: "TFJob", word: "tfjob", text: tensorflow },
  { kind: "JAXJob", word: "jaxjob", text: jax },
  { kind: "MPIJob", word: "mpijob", text: mpi },
  { kind: "PaddleJob", word: "paddlejob", text: paddle },
  { kind: "PaddleJob", word: "paddlejob.batch.paddlepaddle.org", text: paddleCloud },
  { kind: "XGBoostJob", word: "xgboostjob", text: xgboost },
]

/** The example with a suffix in its name, so that two users can try it. */
export function freshly(example: Example, suffix: string): string {
  return example.text.replace(/^( {2}name: .*)$/m, `$1-${suffix}`)
}

const route = getRouteApi("/shell/jobs/new")

export function NewJob() {
  const w = useTexts(jobTexts)
  const c = useTexts(commonTexts)
  const e = useTexts(editorTexts)
  const language = usePreferences((all) => all.language)
  const navigate = useNavigate()
  const { example } = route.useSearch()
  const [text, setText] = useState(() => {
    const wanted = EXAMPLES.find((each) => each.word === example)
    return wanted ? freshly(wanted, suffix()) : ""
  })
  const [offered, setOffered] = useState<Example>()
  const [team, setTeam] = useState("")
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const [over, setOver] = useState(false)
  const given = useRef(text) // the text of an example, not typed by the user
  const field = useRef<HTMLTextAreaElement>(null)
  const checked = useManifestCheck(text)
  const isChanged = text.trim() !== "" && text !== given.current
  const draft = useFormDraft({ text, team }, isChanged, (kept) => {
    setText(kept.text)
    setTeam(kept.team)
  })
  const marks = useMemo(
    () =>
      checked.problems.map(
        (problem): Mark => ({
          line: Math.max(1, problem.line),
          tone: problem.severity,
          text: serverMessage(problem, language),
        }),
      ),
    [checked.problems, language],
  )
  const put = (content: string) => {
    given.current = content
    setText(content)
    setError(undefined)
  }
  const take = (file: File | undefined) => {
    file?.text().then(put).catch(noteError)
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    take(event.dataTransfer.files[0])
  }
  const begin = (example: Example) => {
    if (text.trim() && text !== given.current) setOffered(example)
    else put(freshly(example, suffix()))
  }
  const startKind = (kind: JobKind) => {
    const known = EXAMPLES.find((each) => each.word === kind.word)
    put(known ? freshly(known, suffix()) : skeleton(kind, suffix()))
  }
  const submit = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const made = await createJobs(text, team)
      draft.forget()
      note(w("submitted", { n: made.length }))
      const [only, ...more] = made
      if (only && !more.length)
        await navigate({ to: "/jobs/$namespace/$kind/$name", params: placeOf(only), ignoreBlocker: true })
      else await navigate({ to: "/jobs", ignoreBlocker: true })
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  const wrong = checked.problems.some((problem) => problem.severity === "error")
  return (
    <Page
      wide
      title={w("createTitle")}
      lead={w("createLead")}
      above={
        <Link to="/jobs" className="hover:underline">
          {w("title")}
        </Link>
      }
      actions={
        <Button look="primary" disabled={busy || wrong || !text.trim()} onClick={() => void submit()}>
          {w("submit")}
        </Button>
      }
    >
      <DraftOffer draft={draft} />
      <ProblemView error={error} />
      <div role="group" aria-label={w("example")} className="flex flex-wrap items-center gap-2">
        <span className="text-[13px] text-muted-foreground">{w("example")}:</span>
        {EXAMPLES.map((example) => (
          <Button key={example.word} size="small" onClick={() => begin(example)}>
            <KindBadge kind={example.kind} word={example.word} />
          </Button>
        ))}
      </div>
      <div className="flex gap-4 max-lg:flex-col">
        <div className="min-w-0 flex-1">
          <JobForm text={text} change={setText} start={startKind} problems={checked.problems} />
        </div>
        {/* biome-ignore lint/a11y/noStaticElementInteractions: a file can also be chosen with a button. */}
        <div
          className={classes(
            "flex min-w-0 flex-1 flex-col gap-4 rounded-md lg:sticky lg:top-4 lg:self-start",
            over && "outline-2 outline-offset-4 outline-primary outline-dashed",
          )}
          onDragOver={(event) => {
            event.preventDefault()
            setOver(true)
          }}
          onDragLeave={() => setOver(false)}
          onDrop={drop}
        >
          <Field label={w("manifest")} hint={over ? w("dropHere") : w("manifestHint")}>
            {(attributes) => (
              <CodeEditor
                {...attributes}
                ref={field}
                aria-invalid={wrong || undefined}
                value={text}
                onChange={setText}
                marks={marks}
                className="h-[calc(100vh-24rem)] min-h-80"
              />
            )}
          </Field>
          <ManifestFileButton label={w("chooseFile")} take={take} />
          <OwnTeamField label={c("shareWith")} optional value={team} onChange={setTeam} />
          <Verdict checked={checked} go={(line) => goToLine(field.current, line)} />
        </div>
      </div>
      <LeaveGuard changed={isChanged} help={e("leaveWithDraft")} />
      <Confirm
        open={offered !== undefined}
        onClose={() => setOffered(undefined)}
        title={w("replaceTitle")}
        action={w("replace")}
        onConfirm={() => {
          if (offered) put(freshly(offered, suffix()))
        }}
      />
    </Page>
  )
}

function Verdict({ checked, go }: { checked: ManifestCheck; go: (line: number) => void }) {
  const w = useTexts(jobTexts)
  const errors = checked.problems.filter((problem) => problem.severity === "error")
  const warnings = checked.problems.filter((problem) => problem.severity === "warning")
  const good = checked.jobs.length > 0 && errors.length === 0
  return (
    <section
      aria-label={w("problems", { n: errors.length })}
      className="flex flex-col gap-3 rounded-lg border bg-card p-3"
    >
      <p role="status" className="flex items-center gap-2 font-medium">
        {checked.busy ? (
          <span className="font-normal text-muted-foreground">{w("checking")}</span>
        ) : errors.length ? (
          <>
            <CircleAlert aria-hidden className="size-4 text-destructive" />
            {w("problems", { n: errors.length })}
          </>
        ) : good ? (
          <>
            <CircleCheck aria-hidden className="size-4 text-success" />
            {w("good")}
          </>
        ) : (
          <span className="font-normal text-muted-foreground">{w("emptyManifest")}</span>
        )}
      </p>
      <ProblemView error={checked.error} />
      <Problems problems={errors} go={go} />
      {warnings.length > 0 && (
        <>
          <p className="flex items-center gap-2 text-[13px] font-medium">
            <TriangleAlert aria-hidden className="size-4 text-warning" />
            {w("warnings", { n: warnings.length })}
          </p>
          <Problems problems={warnings} go={go} />
        </>
      )}
      {good && (
        <div className="text-[13px]">
          <p className="text-muted-foreground">{w("wouldMake")}</p>
          <ul>
            {checked.jobs.map((job) => (
              <li key={`${job.line}`} className="break-all">
                {job.kind} <code className="font-mono">{job.name}</code>{" "}
                <span className="text-muted-foreground">({job.namespace})</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  )
}

function Problems({ problems, go }: { problems: ManifestProblem[]; go: (line: number) => void }) {
  const w = useTexts(jobTexts)
  const language = usePreferences((all) => all.language)
  return (
    <ul className="flex flex-col gap-1">
      {problems.map((problem, index) => (
        <li key={index}>
          <button
            type="button"
            className="w-full rounded-md px-2 py-1.5 text-left text-[13px] hover:bg-muted"
            onClick={() => go(Math.max(1, problem.line))}
          >
            <span className="flex flex-wrap gap-x-2">
              {problem.line > 0 && (
                <span className="font-medium whitespace-nowrap text-primary">{w("line", { n: problem.line })}</span>
              )}
              {problem.path && <code className="font-mono break-all text-muted-foreground">{problem.path}</code>}
            </span>
            <span className="break-words">{serverMessage(problem, language)}</span>
          </button>
        </li>
      ))}
    </ul>
  )
}

function suffix(): string {
  return Math.random().toString(36).slice(2, 6)
}
