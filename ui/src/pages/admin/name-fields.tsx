import { Field, Input, TextArea } from "@/components/form"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

interface Props {
  fault: (field: string) => string | undefined
  name?: string
  description?: string
  hint?: string
}

/** What a thing is called, and what it is for. */
export function NameFields({ fault, name, description, hint }: Props) {
  const c = useWords(commonWords)
  return (
    <>
      <Field label={c("name")} hint={hint} error={fault("name")}>
        {(field) => <Input {...field} name="name" required autoFocus autoComplete="off" defaultValue={name} />}
      </Field>
      <Field label={c("description")} optional error={fault("description")}>
        {(field) => <TextArea {...field} name="description" rows={2} defaultValue={description} />}
      </Field>
    </>
  )
}
