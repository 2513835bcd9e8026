import { cva, type VariantProps } from "class-variance-authority"
import { Slot } from "radix-ui"
import type { ComponentProps } from "react"
import { classes } from "@/lib/classes"

const looks = cva(
  "inline-flex items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors select-none " +
    "disabled:opacity-50 disabled:pointer-events-none [&_svg]:size-4 [&_svg]:shrink-0",
  {
    variants: {
      look: {
        primary: "bg-primary text-primary-foreground hover:bg-primary/90",
        plain: "border bg-card hover:bg-muted",
        ghost: "hover:bg-muted",
        danger: "bg-destructive text-destructive-foreground hover:bg-destructive/90",
        link: "text-primary underline-offset-4 hover:underline",
      },
      size: { usual: "h-9 px-3.5", small: "h-8 px-2.5 text-[13px]", icon: "size-8", link: "" },
    },
    defaultVariants: { look: "plain", size: "usual" },
  },
)

type Props = ComponentProps<"button"> & VariantProps<typeof looks> & { asChild?: boolean }

/** With `asChild`, its only child (for example a link) looks like a button. */
export function Button({ className, look, size, asChild, type = "button", ...rest }: Props) {
  const Tag = asChild ? Slot.Root : "button"
  return <Tag type={asChild ? undefined : type} className={classes(looks({ look, size }), className)} {...rest} />
}
