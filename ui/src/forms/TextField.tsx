/** Single-line and multi-line text inputs that show the errors and the resolved value for their path. */
import { Textarea, type TextareaProps, TextInput, type TextInputProps } from "@mantine/core";
import type { ReactNode } from "react";
import { useFinding } from "./findings";
import { describeNote } from "./resolution";
import { NoteLine, useResolved } from "./resolved";
import classes from "./TextField.module.css";

interface Field {
  value: string;
  onChange: (text: string) => void;
  /** The value's path in the request body. If missing, only `error` is shown. */
  path?: string;
  /** Uses a monospace font, for code and commands. */
  isCode?: boolean;
}

const CODE = { classNames: { input: classes.code }, spellCheck: false };

export function TextField({
  path,
  isCode,
  error,
  onChange,
  ...input
}: Field & Omit<TextInputProps, "value" | "onChange">) {
  const finding = useFinding();
  const noteProps = useNoteProps(path);
  return (
    <TextInput
      {...noteProps}
      {...(isCode && CODE)}
      autoComplete="off"
      withAsterisk={false}
      error={error ?? (path && finding(path))}
      onChange={(event) => onChange(event.currentTarget.value)}
      {...input}
    />
  );
}

export function TextArea({
  path,
  isCode,
  error,
  onChange,
  ...area
}: Field & Omit<TextareaProps, "value" | "onChange">) {
  const finding = useFinding();
  const noteProps = useNoteProps(path);
  return (
    <Textarea
      {...noteProps}
      {...(isCode && CODE)}
      autoComplete="off"
      withAsterisk={false}
      error={error ?? (path && finding(path))}
      onChange={(event) => onChange(event.currentTarget.value)}
      {...area}
    />
  );
}

/** Props that show the resolved value. The container is always set: replacing it would make the input lose focus. */
function useNoteProps(path: string | undefined) {
  const note = useResolved(path);
  return {
    "aria-description": note && describeNote(note),
    inputContainer: (input: ReactNode) => (
      <>
        {input}
        {note && <NoteLine note={note} />}
      </>
    ),
  };
}
