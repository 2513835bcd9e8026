/** A button that chooses a file with a manifest. */
import { FileUp } from "lucide-react"
import { Button } from "./button"

export function ManifestFileButton({ label, take }: { label: string; take: (file: File | undefined) => void }) {
  return (
    <Button asChild className="self-start">
      <label className="cursor-pointer focus-within:outline-2 focus-within:outline-offset-2 focus-within:outline-ring">
        <FileUp />
        {label}
        <input
          type="file"
          accept=".yaml,.yml,.json"
          className="sr-only"
          onChange={(event) => take(event.target.files?.[0])}
        />
      </label>
    </Button>
  )
}
