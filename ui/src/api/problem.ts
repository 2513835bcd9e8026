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

  /** The message about a field, by its path, in the user's language. */
  of(field: string): string | undefined {
    const found = this.fields.find((each) => each.field === field)
    return found && serverMessage(found, usePreferences.getState().language)
  }
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
