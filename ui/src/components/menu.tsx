import { DropdownMenu as Radix } from "radix-ui"
import type { ReactNode } from "react"
import { classes } from "@/lib/classes"

export interface MenuItem {
  label: ReactNode
  icon?: ReactNode
  onSelect: () => void
  danger?: boolean
  disabled?: boolean
  /** Of a choice: whether it is selected. */
  checked?: boolean
}

interface Props {
  children: ReactNode
  items: (MenuItem | "line")[]
  align?: "start" | "end"
}

export function Menu({ children, items, align = "end" }: Props) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          className="z-50 min-w-44 rounded-md border bg-card p-1 shadow-lg [&_svg]:size-4 [&_svg]:text-muted-foreground"
        >
          {items.map((item, index) =>
            item === "line" ? (
              <Radix.Separator key={index} className="my-1 h-px bg-border" />
            ) : item.checked === undefined ? (
              <Radix.Item key={index} disabled={item.disabled} onSelect={item.onSelect} className={entry(item.danger)}>
                {item.icon}
                {item.label}
              </Radix.Item>
            ) : (
              <Radix.CheckboxItem
                key={index}
                checked={item.checked}
                onSelect={item.onSelect}
                className={classes(entry(), item.checked && "font-semibold text-primary")}
              >
                {item.icon}
                {item.label}
              </Radix.CheckboxItem>
            ),
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

function entry(danger?: boolean): string {
  return classes(
    "flex cursor-pointer items-center gap-2 rounded px-2 py-1.5 outline-none data-highlighted:bg-muted data-disabled:opacity-50",
    danger && "text-destructive [&_svg]:text-destructive",
  )
}
