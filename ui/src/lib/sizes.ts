const UNITS = ["B", "kB", "MB", "GB", "TB"]

/** 12.3 MB, as the server counts them: thousands. */
export function size(bytes: number): string {
  let amount = bytes
  let unit = 0
  while (amount >= 999.5 && unit < UNITS.length - 1) {
    amount /= 1000
    unit++
  }
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : Number(amount.toPrecision(3))} ${UNITS[unit]}`
}
