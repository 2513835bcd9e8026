/** Errors of the server (RFC 9457) and of the connection to it. */
import { usePreferences } from "@/app/preferences"
import { serverMessage } from "@/i18n/server-messages"

export interface FieldProblem {
  field: string
  message: string
  code?: string | null
  arguments?: Record<string, unknown> | null
}

export class Problem extends Error {
  readonly status: number
  readonly kind: string
  readonly title: string
  readonly detail: string
  readonly fields: FieldProblem[]
  /** The code of the detail, and its values. */
  private readonly sentence: Pick<FieldProblem, "code" | "arguments">

  constructor(
    status: number,
    kind: string,
    title: string,
    detail: string,
    fields: FieldProblem[] = [],
    sentence: Pick<FieldProblem, "code" | "arguments"> = {},
  ) {
    super(detail || title)
    this.name = "Problem"
    this.status = status
    this.kind = kind
    this.title = title
    this.detail = detail
    this.fields = fields
    this.sentence = sentence
  }

  /** The detail in the user's language. */
  get said(): string {
    return this.detail && serverMessage({ ...this.sentence, message: this.detail }, usePreferences.getState().language)
  }

  /** Which message the detail is. */
  get code(): string | undefined {
    return this.sentence.code ?? undefined
  }

  /** The kind of the object that does not exist, if that is the problem. */
  get missingKind(): string | undefined {
    return this.sentence.code === "missing" ? String(this.sentence.arguments?.kind) : undefined
  }

  /** The message about a field, by its path, in the user's language. */
  of(field: string): string | undefined {
    const found = this.fields.find((each) => each.field === field)
    return found && serverMessage(found, usePreferences.getState().language)
  }
}

/** The error without what it says of a field that the user is correcting; undefined if nothing is left. */
export function withoutField(error: unknown, field: string): unknown {
  const problem = asProblem(error)
  const rest = problem.fields.filter((each) => each.field !== field)
  if (rest.length === problem.fields.length) return error
  if (!rest.length) return undefined
  return new Problem(problem.status, problem.kind, problem.title, problem.detail, rest)
}

/** The error of a query that leaves nothing to show. What was loaded stays while the server cannot be reached. */
export function failure({ error, data }: { error: unknown; data?: unknown }): unknown {
  if (!error) return undefined
  const { status } = asProblem(error)
  return data === undefined || (status >= 400 && status < 500) ? error : undefined
}

export const UNREACHABLE = new Problem(0, "unreachable", "", "")

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof TypeError && /fetch|network|load failed/i.test(error.message)) return UNREACHABLE
  return new Problem(0, "bug", "", error instanceof Error ? error.message : String(error))
}

export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text()
  try {
    const said = JSON.parse(text) as Record<string, unknown>
    return new Problem(
      response.status,
      String(said.type ?? "").replace("/problems/", ""),
      String(said.title ?? ""),
      String(said.detail ?? ""),
      Array.isArray(said.errors) ? (said.errors as FieldProblem[]) : [],
      said as Pick<FieldProblem, "code" | "arguments">,
    )
  } catch {
    return new Problem(response.status, "http", response.statusText, text.slice(0, 500))
  }
}
