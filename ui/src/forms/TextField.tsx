/** Text to type, in one line or several. What is wrong at its path, and what it comes to, stands below it. */
import { Textarea, type TextareaProps, TextInput, type TextInputProps } from "@mantine/core";
import type { ReactNode } from "react";
import { useFinding } from "./findings";
import { showTold } from "./resolution";
import { ToldLine, useResolved } from "./resolved";
import classes from "./TextField.module.css";

interface Field {
  value: string;
  onChange: (text: string) => void;
  /** Where it is in what is sent; left out, `error` says what is wrong. */
  path?: string;
  /** Whether it is code, or words of a command. */
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
  const note = useNote(path);
  return (
    <TextInput
      {...note}
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
  const note = useNote(path);
  return (
    <Textarea
      {...note}
      {...(isCode && CODE)}
      autoComplete="off"
      withAsterisk={false}
      error={error ?? (path && finding(path))}
      onChange={(event) => onChange(event.currentTarget.value)}
      {...area}
    />
  );
}

/** Always in the same place, so that nobody loses the focus when it comes. */
function useNote(path: string | undefined) {
  const told = useResolved(path);
  return {
    "aria-description": told && showTold(told),
    inputContainer: (input: ReactNode) => (
      <>
        {input}
        {told && <ToldLine told={told} />}
      </>
    ),
  };
}
