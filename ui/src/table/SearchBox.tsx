import { CloseButton, TextInput } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import classes from "./TablePage.module.css";

const PAUSE_MS = 250;

/** Searches a moment after the last letter. The key / goes there. */
export function SearchBox({ value, onSearch }: { value: string; onSearch: (text: string) => void }) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(value), [value]);
  // Whoever went elsewhere meanwhile is not called back.
  useEffect(() => () => clearTimeout(timer.current), []);
  useHotkeys([["/", () => input.current?.focus()]]);
  const say = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(next), PAUSE_MS);
  };
  return (
    <TextInput
      ref={input}
      size="sm"
      className={classes.search}
      aria-label="Search"
      placeholder="Search  ( / )"
      value={text}
      onChange={(event) => say(event.currentTarget.value)}
      leftSection={<IconSearch size={16} stroke={1.6} />}
      rightSection={text && <CloseButton size="sm" aria-label="Clear the search" onClick={() => say("")} />}
    />
  );
}
