import { CloseButton, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import classes from "./TablePage.module.css";

const DEBOUNCE_MS = 250;

/** A debounced search field. Pressing "/" focuses it. */
export function SearchBox({ value, onSearch }: { value: string; onSearch: (text: string) => void }) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // The search text also changes when the user goes back or forward, or clears all filters.
  useEffect(() => setText(value), [value]);
  // A pending search must not change the URL of another page.
  useEffect(() => () => clearTimeout(timer.current), []);
  useHotkeys([["/", () => input.current?.focus()]]);
  const change = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(next), DEBOUNCE_MS);
  };
  return (
    <TextInput
      ref={input}
      size="sm"
      className={classes.search}
      aria-label="Search"
      placeholder="Search  ( / )"
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
      leftSection={<IconSearch size={16} stroke={1.6} />}
      rightSection={text && <CloseButton size="sm" aria-label="Clear search" onClick={() => change("")} />}
    />
  );
}
