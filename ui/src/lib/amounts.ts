/** Amounts of resources and sizes of files: how they are added up and written. */
import type { Amount } from "@/api/cluster"
import type { Language } from "@/app/preferences"
import type { Text } from "@/i18n/translate"

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"]

/** `0.25`, `8`; bytes as `15.6 Gi`. At most three digits. */
export function amountText(resource: string, amount: number): string {
  if (!isBytes(resource)) return short(amount)
  const power = amount < 1 ? 0 : Math.min(BINARY.length - 1, Math.floor(Math.log2(amount) / 10))
  return `${short(amount / 1024 ** power)}${power ? ` ${BINARY[power]}` : ""}`
}

const NAMES: Record<string, Text> = {
  cpu: ["CPU", "CPU"],
  memory: ["memory", "内存"],
  "nvidia.com/gpu": ["GPU", "GPU"],
  "ephemeral-storage": ["disk", "磁盘"],
  pods: ["Pods", "Pod"],
}

/** The name that users know: `nvidia.com/gpu` is GPU. */
export function resourceName(resource: string, language: Language): string {
  const known = NAMES[resource]
  return known ? known[language === "zh" ? 1 : 0] : resource
}

/** `1 GPU · 10 CPU · 80G memory` */
export function skuText(sku: Record<string, string>, language: Language): string {
  const order = (name: string) => (name.includes("/") ? 0 : name === "cpu" ? 1 : 2)
  return Object.entries(sku)
    .sort(([one], [other]) => order(one) - order(other) || one.localeCompare(other))
    .map(([name, amount]) => `${readable(name, amount)} ${resourceName(name, language)}`)
    .join(" · ")
}

/** Whether no node has room for so many SKUs. Without any node nothing is known: they may be added on demand. */
export function exceedsNodes(skus: number, cluster: { largest: number }): boolean {
  return cluster.largest > 0 && skus > cluster.largest
}

/** As it was written, unless it is a sum in an unreadable unit: 1953125Ki is 1.86 Gi. */
function readable(resource: string, quantity: string): string {
  const kibibytes = /^(\d{5,})Ki$/.exec(quantity)
  return kibibytes && isBytes(resource) ? amountText(resource, Number(kibibytes[1]) * 1024) : quantity
}

/** Adds up the amounts of several nodes by resource. */
export function sumAmounts(amounts: Amount[]): Amount[] {
  const found = new Map<string, Amount>()
  for (const each of amounts) {
    const before = found.get(each.resource)
    found.set(each.resource, {
      resource: each.resource,
      used: each.used + (before?.used ?? 0),
      allocatable: each.allocatable + (before?.allocatable ?? 0),
      capacity: each.capacity + (before?.capacity ?? 0),
    })
  }
  return [...found.values()]
}

function isBytes(resource: string): boolean {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")
}

function short(amount: number): string {
  const rounded = amount >= 100 ? Math.round(amount) : Math.round(amount * 100) / 100
  return amount >= 100 ? String(rounded) : String(Number(rounded.toPrecision(3)))
}

const UNITS = ["B", "kB", "MB", "GB", "TB"]

/** `12.3 MB`, in powers of 1000 like the server. */
export function sizeText(bytes: number): string {
  let amount = bytes
  let unit = 0
  while (amount >= 999.5 && unit < UNITS.length - 1) {
    amount /= 1000
    unit++
  }
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : Number(amount.toPrecision(3))} ${UNITS[unit]}`
}
