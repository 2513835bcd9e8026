/** Form controls. A field has a label, a hint and an error. */
import { type ComponentProps, type ReactNode, useId } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"

const box =
  "w-full rounded-md border border-input bg-card px-2.5 text-foreground placeholder:text-muted-foreground " +
  "disabled:bg-muted/60 disabled:opacity-100 aria-invalid:border-destructive"

const fixed = "read-only:not-disabled:bg-muted/60"

export interface FieldProps {
  label: string
  hint?: ReactNode
  error?: string
  optional?: boolean
  hideLabel?: boolean
  className?: string
  children: (attributes: { id: string; "aria-invalid"?: true; "aria-describedby"?: string }) => ReactNode
}

export function Field({ label, hint, error, optional, hideLabel, className, children }: FieldProps) {
  const w = useTexts(commonTexts)
  const id = useId()
  const described = error ? `${id}-error` : hint ? `${id}-hint` : undefined
  return (
    <div className={classes("flex flex-col gap-1", className)}>
      <label htmlFor={id} className={hideLabel ? "sr-only" : "text-[13px] font-medium"}>
        {label}
        {optional && <span className="ml-1 font-normal text-muted-foreground">({w("optional")})</span>}
      </label>
      {children({ id, "aria-invalid": error ? true : undefined, "aria-describedby": described })}
      {error ? (
        <p id={`${id}-error`} className="text-[13px] text-destructive">
          {error}
        </p>
      ) : (
        hint && (
          <p id={`${id}-hint`} className="text-[13px] text-muted-foreground">
            {hint}
          </p>
        )
      )}
    </div>
  )
}

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={classes(box, fixed, "h-9", className)} {...rest} />
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={classes(box, fixed, "min-h-9 py-1.5 disabled:resize-none", className)} {...rest} />
}

/** For commands and manifests. */
export function Code({ className, ...rest }: ComponentProps<"textarea">) {
  return (
    <TextArea
      spellCheck={false}
      autoCapitalize="off"
      autoCorrect="off"
      className={classes("font-mono text-[13px] leading-5", className)}
      {...rest}
    />
  )
}

export function Select({ className, ...rest }: ComponentProps<"select">) {
  return <select className={classes(box, "h-9 pr-1.5", className)} {...rest} />
}

export function Tick({ label, className, ...rest }: ComponentProps<"input"> & { label: ReactNode }) {
  return (
    <label className={classes("inline-flex items-center gap-2", className)}>
      <input type="checkbox" className="size-4 accent-primary" {...rest} />
      <span>{label}</span>
    </label>
  )
}
