/** Moments as `<input type="datetime-local">` has them: by the reader's clock, without a time zone. */
export function asLocal(moment: string | undefined): string {
  const at = moment ? new Date(moment) : undefined
  if (!at || Number.isNaN(at.getTime())) return ""
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

export function asMoment(local: string): string | undefined {
  const at = new Date(local)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}
