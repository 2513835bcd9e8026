import { type ClassValue, clsx } from "clsx"
import { twMerge } from "tailwind-merge"

/** Class names; of two that say the same thing, the later wins. */
export function classes(...all: ClassValue[]): string {
  return twMerge(clsx(all))
}
