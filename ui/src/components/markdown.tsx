/** Renders untrusted Markdown. HTML is not rendered, and images are not loaded: their host would learn who reads. */
import { Image } from "lucide-react"
import type { Tokens } from "marked"
import { Fragment, memo, type ReactNode, useMemo } from "react"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import {
  entities,
  headingId,
  linkAddress,
  readMarkdown,
  type Token,
  withoutScripts,
  withoutTags,
} from "@/lib/markdown-parser"

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => readMarkdown(text), [text])
  return <div className="flex min-w-0 flex-col gap-3 leading-6 break-words">{blocks(tokens)}</div>
})

function blocks(tokens: Token[]): ReactNode {
  return tokens.map((token, index) => <Fragment key={index}>{block(token)}</Fragment>)
}

/** One level below the page's heading. */
const HEADINGS = ["h2", "h3", "h4", "h5", "h6", "h6"] as const
const SIZES = ["text-xl", "text-lg", "text-base", "text-sm", "text-sm", "text-sm"]

function block(token: Token): ReactNode {
  switch (token.type) {
    case "heading": {
      const { depth, text, tokens } = token as Tokens.Heading
      const Tag = HEADINGS[depth - 1] ?? "h6"
      return (
        <Tag
          id={headingId(entities(text))}
          className={classes("mt-2 font-semibold first:mt-0", SIZES[depth - 1], depth < 3 && "border-b pb-1")}
        >
          {inline(tokens)}
        </Tag>
      )
    }
    case "paragraph":
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>
    case "text":
      return token.tokens ? inline(token.tokens) : entities((token as Tokens.Text).text)
    case "code":
      return (
        <pre tabIndex={0} className="overflow-x-auto rounded-md border bg-muted/50 p-3 font-mono text-[13px] leading-5">
          <code>{(token as Tokens.Code).text}</code>
        </pre>
      )
    case "blockquote":
      return (
        <blockquote className="flex flex-col gap-3 border-l-3 pl-3 text-muted-foreground">
          {blocks(token.tokens ?? [])}
        </blockquote>
      )
    case "list":
      return <List list={token as Tokens.List} />
    case "table":
      return <Table table={token as Tokens.Table} />
    case "hr":
      return <hr />
    case "html": {
      const said = withoutTags((token as Tokens.HTML).text)
      return said ? <p className="whitespace-pre-line">{said}</p> : null
    }
    default:
      return null // white space and link definitions
  }
}

function List({ list }: { list: Tokens.List }) {
  const items = list.items.map((item, index) => (
    <li key={index} className={classes(item.task && "-ml-5 flex list-none gap-2")}>
      {item.task && (
        <input
          type="checkbox"
          disabled
          checked={item.checked ?? false}
          readOnly
          aria-label={item.text}
          className="mt-1.5 shrink-0"
        />
      )}
      <div className={classes("min-w-0", list.loose && "flex flex-col gap-2")}>
        {blocks(item.tokens.filter((inside) => inside.type !== "checkbox"))}
      </div>
    </li>
  ))
  return list.ordered ? (
    <ol start={Number(list.start) || 1} className="list-decimal space-y-1 pl-6">
      {items}
    </ol>
  ) : (
    <ul className="list-disc space-y-1 pl-6">{items}</ul>
  )
}

function Table({ table }: { table: Tokens.Table }) {
  const align = (index: number) =>
    ({ left: "", center: "text-center", right: "text-right" })[table.align[index] ?? "left"]
  return (
    <div className="overflow-x-auto" tabIndex={0}>
      <table className="border-collapse text-left">
        <thead>
          <tr>
            {table.header.map((cell, index) => (
              <th key={index} scope="col" className={classes("border px-3 py-1.5 font-medium", align(index))}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, place) => (
                <td key={place} className={classes("border px-3 py-1.5", align(place))}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function inline(tokens: Token[] | undefined): ReactNode {
  return tokens && withoutScripts(tokens).map((token, index) => <Fragment key={index}>{piece(token)}</Fragment>)
}

function piece(token: Token): ReactNode {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>
    case "em":
      return <em>{inline(token.tokens)}</em>
    case "del":
      return <del>{inline(token.tokens)}</del>
    case "codespan":
      return (
        <code className="rounded bg-muted px-1 py-0.5 font-mono text-[0.9em]">{(token as Tokens.Codespan).text}</code>
      )
    case "br":
      return <br />
    case "link":
      return <Away href={(token as Tokens.Link).href}>{inline(token.tokens)}</Away>
    case "image":
      return <Picture image={token as Tokens.Image} />
    case "html":
      return /^<br\b/i.test((token as Tokens.Tag).text) ? <br /> : null // its text is in other tokens
    case "escape":
      return (token as Tokens.Escape).text
    case "text":
      return token.tokens ? inline(token.tokens) : entities((token as Tokens.Text).text)
    default:
      return null
  }
}

function Away({ href, children }: { href: string; children: ReactNode }) {
  const address = linkAddress(entities(href))
  if (!address) return <span title={href}>{children}</span>
  const outside = !address.startsWith("#")
  return (
    <a
      href={address}
      className="text-primary underline underline-offset-2"
      {...(outside ? { target: "_blank", rel: "noopener noreferrer nofollow" } : {})}
    >
      {children}
    </a>
  )
}

function Picture({ image }: { image: Tokens.Image }) {
  const w = useTexts(moduleTexts)
  const shown = (
    <span className="inline-flex items-center gap-1 rounded border px-1.5 text-[13px] text-muted-foreground">
      <Image aria-hidden className="size-3.5" />
      {entities(image.text) || w("image")}
    </span>
  )
  return linkAddress(image.href)?.startsWith("http") ? <Away href={image.href}>{shown}</Away> : shown
}
