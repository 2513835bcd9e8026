import { type ClassValue, clsx } from "clsx"
import { twMerge } from "tailwind-merge"

/** Joins class names; of two that conflict, the later wins. */
export function classes(...all: ClassValue[]): string {
  return twMerge(clsx(all))
}
