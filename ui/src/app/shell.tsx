/** The frame around every page: navigation, account menu, and the pages shown when something is wrong. */

import { Link, Outlet, useNavigate } from "@tanstack/react-router"
import { Compass, Languages, LogOut, Menu as MenuIcon, Moon, Search, Sun, User, UserCog } from "lucide-react"
import { useCallback, useState } from "react"
import { signOut, useMe } from "@/api/client"
import { Button } from "@/components/button"
import { Empty, ProblemView } from "@/components/feedback"
import { Menu } from "@/components/menu"
import { Page } from "@/components/page"
import { noteError, Toasts } from "@/components/toasts"
import { commonTexts } from "@/i18n/common"
import { shellTexts } from "@/i18n/shell"
import { useTexts } from "@/i18n/translate"
import { classes } from "@/lib/classes"
import { CommandPalette, usePaletteKey } from "./command-palette"
import { useIsLeft } from "./left-page"
import { NAVIGATION_GROUPS } from "./navigation"
import { useRunNotifications } from "./notifications"
import { type Theme, useIsDark, usePreferences } from "./preferences"

export function Root() {
  return (
    <>
      <Outlet />
      <Toasts />
    </>
  )
}

export function Shell() {
  const w = useTexts(shellTexts)
  const [open, setOpen] = useState(false)
  useRunNotifications()
  return (
    <div className="flex h-full">
      <a
        href="#content"
        className="sr-only z-50 rounded-md bg-primary px-3 py-2 text-primary-foreground focus:not-sr-only focus:absolute focus:top-2 focus:left-2"
      >
        {w("skip")}
      </a>
      <Navigation open={open} close={() => setOpen(false)} />
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="flex h-12 shrink-0 items-center gap-1 border-b bg-card px-3 md:hidden">
          <Button look="ghost" size="icon" aria-label={w("menu")} aria-expanded={open} onClick={() => setOpen(!open)}>
            <MenuIcon />
          </Button>
          <Logo />
        </header>
        <Content />
      </div>
    </div>
  )
}

/** The page. Only this is rendered while it is left: the rest of the frame needs a session, which may have expired. */
function Content() {
  return (
    <main id="content" tabIndex={-1} inert={useIsLeft()} className="min-h-0 flex-1 overflow-y-auto outline-none">
      <Outlet />
    </main>
  )
}

function Navigation({ open, close }: { open: boolean; close: () => void }) {
  const w = useTexts(shellTexts)
  const me = useMe()
  const [palette, setPalette] = useState(false)
  usePaletteKey(useCallback(() => setPalette((now) => !now), []))
  return (
    <nav
      aria-label={w("navigation")}
      className={classes(
        "w-52 shrink-0 flex-col border-r bg-card md:flex",
        open ? "fixed inset-y-0 top-12 left-0 z-30 flex shadow-xl" : "hidden",
      )}
    >
      <div className="hidden h-14 items-center px-4 md:flex">
        <Logo />
      </div>
      <div className="px-2 pt-2 md:pt-0">
        <button
          type="button"
          onClick={() => setPalette(true)}
          className="flex w-full items-center gap-2 rounded-md border bg-background px-2.5 py-1.5 text-[13px] text-muted-foreground hover:text-foreground"
        >
          <Search className="size-3.5" aria-hidden />
          <span className="flex-1 text-left">{w("goTo")}</span>
          <kbd className="font-sans text-xs">{/Mac/.test(navigator.platform) ? "⌘K" : "Ctrl K"}</kbd>
        </button>
      </div>
      <CommandPalette open={palette} onClose={() => setPalette(false)} />
      <div className="flex flex-1 flex-col gap-3 overflow-y-auto p-2">
        {NAVIGATION_GROUPS.map(({ word: heading, items }) => (
          <section key={heading ?? ""} aria-label={heading && w(heading)}>
            {heading && (
              <p aria-hidden className="px-2.5 pb-1 text-xs font-medium text-muted-foreground">
                {w(heading)}
              </p>
            )}
            <ul className="flex flex-col gap-0.5">
              {items
                .filter((place) => !place.for || place.for(me))
                .map(({ to, word, icon: Icon }) => (
                  <li key={to}>
                    <Link
                      to={to}
                      activeOptions={{ exact: to === "/" }}
                      onClick={close}
                      className="flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-muted-foreground hover:bg-muted hover:text-foreground"
                      activeProps={{ className: "bg-accent! text-primary! font-medium", "aria-current": "page" }}
                    >
                      <Icon className="size-4" aria-hidden />
                      {w(word)}
                    </Link>
                  </li>
                ))}
            </ul>
          </section>
        ))}
      </div>
      <div className="flex items-center gap-1 border-t p-2">
        <Account />
        <div className="flex-1" />
        <LanguageSwitch />
        <ThemeSwitch />
      </div>
    </nav>
  )
}

function Logo() {
  return (
    <Link to="/" className="flex items-center gap-2 text-base font-semibold tracking-tight">
      <img src="/icon.svg" alt="" className="size-6" />
      Muster
    </Link>
  )
}

export function LanguageSwitch() {
  const w = useTexts(shellTexts)
  const { language, setLanguage } = usePreferences()
  return (
    <Menu
      items={[
        { label: "English", checked: language === "en", onSelect: () => setLanguage("en") },
        { label: "中文", checked: language === "zh", onSelect: () => setLanguage("zh") },
      ]}
    >
      <Button look="ghost" size="icon" aria-label={w("language")} title={w("language")}>
        <Languages />
      </Button>
    </Menu>
  )
}

export function ThemeSwitch() {
  const w = useTexts(shellTexts)
  const { theme, setTheme } = usePreferences()
  const dark = useIsDark()
  const choices: [Theme, keyof typeof shellTexts][] = [
    ["light", "themeLight"],
    ["dark", "themeDark"],
    ["system", "themeSystem"],
  ]
  return (
    <Menu
      items={choices.map(([value, word]) => ({
        label: w(word),
        checked: theme === value,
        onSelect: () => setTheme(value),
      }))}
    >
      <Button look="ghost" size="icon" aria-label={w("theme")} title={w("theme")}>
        {dark ? <Moon /> : <Sun />}
      </Button>
    </Menu>
  )
}

function Account() {
  const w = useTexts(shellTexts)
  const { user } = useMe()
  const navigate = useNavigate()
  const leave = async () => {
    try {
      await signOut()
      location.assign("/sign-in")
    } catch (error) {
      noteError(error)
    }
  }
  return (
    <Menu
      align="start"
      items={[
        { label: w("myAccount"), icon: <UserCog />, onSelect: () => void navigate({ to: "/account" }) },
        "line",
        { label: w("signOut"), icon: <LogOut />, onSelect: leave },
      ]}
    >
      <Button look="ghost" size="small" className="max-w-28 px-1.5" aria-label={w("account", { name: user.name })}>
        <User />
        <span className="truncate">{user.name}</span>
      </Button>
    </Menu>
  )
}

export function NotFoundPage() {
  const w = useTexts(commonTexts)
  return (
    <Page title={w("pageNotFound")}>
      <Empty
        icon={Compass}
        title={w("pageNotFoundHelp")}
        actions={
          <Button asChild look="primary">
            <Link to="/">{w("goHome")}</Link>
          </Button>
        }
      />
    </Page>
  )
}

export function ErrorPage({ error, reset }: { error: unknown; reset: () => void }) {
  const w = useTexts(commonTexts)
  return (
    <Page title={w("problemTitle")}>
      <ProblemView error={error} retry={reset} />
    </Page>
  )
}
