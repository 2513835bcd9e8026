/** The parts of a module version that its page and its review show. */
import { GitBranch } from "lucide-react"
import type { ReactNode } from "react"
import type { ModuleVersion, ModuleVersionDetail } from "@/api/modules"
import { Badge } from "@/components/badge"
import { Markdown } from "@/components/markdown"
import { Time } from "@/components/time"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { sizeText } from "@/lib/amounts"
import { linkAddress } from "@/lib/markdown-parser"

export function Readme({ version }: { version: ModuleVersionDetail }) {
  const w = useTexts(moduleTexts)
  if (!version.built) return <p className="text-muted-foreground">{w("noReadme")}</p>
  if (!version.readme.trim()) return <p className="text-muted-foreground">{w("emptyReadme")}</p>
  return (
    <article aria-label={w("readme")} className="rounded-lg border bg-card p-5 sm:p-6">
      <Markdown text={version.readme} />
    </article>
  )
}

/** `values`: whether the user may see the values of the environment. */
export function Parameters({ version, values }: { version: ModuleVersion; values: boolean }) {
  const w = useTexts(moduleTexts)
  return (
    <div className="flex flex-col gap-5">
      <Part title={w("inputs")} help={w("inputsHelp")} empty={!version.inputs.length}>
        {version.inputs.map((input) => (
          <Row key={input.name} name={input.name}>
            {input.description}
          </Row>
        ))}
      </Part>
      <Part title={w("outputs")} help={w("outputsHelp")} empty={!version.outputs.length}>
        {version.outputs.map((output) => (
          <Row
            key={output.name}
            name={output.name}
            aside={<Badge tone="primary">{w(output.type === "file" ? "file" : "text")}</Badge>}
          >
            <code className="font-mono text-[13px] break-all text-foreground">{output.path}</code>
            {output.description && <p>{output.description}</p>}
          </Row>
        ))}
      </Part>
      <Part title={w("env")} help={w("envHelp")} empty={!version.env.length}>
        {version.env.map((variable) => (
          <Row key={variable.name} name={variable.name} aside={variable.secret && <Badge>{w("secret")}</Badge>}>
            {!values ? (
              <em>{w("hidden")}</em>
            ) : (
              <code className="font-mono text-[13px] break-all">{variable.secret ? "••••••" : variable.value}</code>
            )}
          </Row>
        ))}
      </Part>
    </div>
  )
}

function Part({ title, help, empty, children }: { title: string; help: string; empty: boolean; children: ReactNode }) {
  const w = useTexts(moduleTexts)
  return (
    <section>
      <h2>{title}</h2>
      <p className="mb-2 text-[13px] text-muted-foreground">{help}</p>
      {empty ? (
        <p className="rounded-lg border border-dashed px-4 py-3 text-muted-foreground">{w("none")}</p>
      ) : (
        <dl className="divide-y rounded-lg border bg-card">{children}</dl>
      )}
    </section>
  )
}

function Row({ name, aside, children }: { name: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <div className="grid gap-x-4 gap-y-1 px-4 py-2.5 sm:grid-cols-[minmax(0,1fr)_minmax(0,2fr)]">
      <dt className="flex flex-wrap items-center gap-2 font-mono text-[13px] font-medium break-all">
        {name}
        {aside}
      </dt>
      <dd className="min-w-0 text-muted-foreground">{children || "–"}</dd>
    </div>
  )
}

/** The source and the result of the build. */
export function Facts({ version }: { version: ModuleVersion }) {
  const w = useTexts(moduleTexts)
  const away = linkAddress(version.git_url)
  const code = "font-mono text-[13px] break-all"
  return (
    <dl className="flex flex-col gap-3">
      <Fact label={w("gitUrl")}>
        {away?.startsWith("http") ? (
          <a href={away} target="_blank" rel="noopener noreferrer" className={`${code} text-primary hover:underline`}>
            {version.git_url}
          </a>
        ) : (
          <span className={code}>{version.git_url}</span>
        )}
      </Fact>
      <Fact label={w("gitRef")}>
        <span className={`${code} inline-flex items-center gap-1`}>
          <GitBranch aria-hidden className="size-3.5" />
          {version.git_ref}
        </span>
      </Fact>
      {version.git_commit && (
        <Fact label={w("commit")}>
          <Commit commit={version.git_commit} />
        </Fact>
      )}
      <Fact label={w("dockerfile")}>
        <span className={code}>{version.dockerfile}</span>
      </Fact>
      <Fact label={w("buildDir")}>
        <span className={code}>{version.build_dir}</span>
      </Fact>
      <Fact label={w("readmePath")}>
        <span className={code}>{version.readme_path}</span>
      </Fact>
      {version.built && (
        <>
          <Fact label={w("built")}>
            <Time at={version.built} />
          </Fact>
          <Fact label={w("runsAs")}>
            {w(version.runs_as === "image" ? "asImage" : "asFolder")} · {sizeText(version.size)}
          </Fact>
          <Fact label={w("entrypoint")}>
            <span className={code}>{version.entrypoint.join(" ")}</span>
          </Fact>
        </>
      )}
    </dl>
  )
}

export function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-[13px] text-muted-foreground">{label}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  )
}

export function Commit({ commit }: { commit: string }) {
  return commit ? (
    <code className="font-mono text-[13px]" title={commit}>
      {commit.slice(0, 10)}
    </code>
  ) : (
    <span className="text-muted-foreground">–</span>
  )
}
