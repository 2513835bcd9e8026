import { Badge } from "@/components/badge"

/** Labels, selectors: what is called what. */
export function Pairs({ pairs, none }: { pairs: Record<string, string>; none: string }) {
  const all = Object.entries(pairs)
  if (!all.length) return <span className="text-muted-foreground">{none}</span>
  return (
    <span className="flex flex-wrap gap-1">
      {all.map(([name, value]) => (
        <Badge key={name} className="rounded font-mono font-normal whitespace-normal break-all">
          {value ? `${name}=${value}` : name}
        </Badge>
      ))}
    </span>
  )
}
