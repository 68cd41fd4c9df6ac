/** Text to type, in one line or several. What is wrong at its path stands below it. */
import { Textarea, type TextareaProps, TextInput, type TextInputProps } from "@mantine/core";
import { useFinding } from "./findings";

interface Field {
  value: string;
  onChange: (text: string) => void;
  /** Where it is in what is sent; left out, `error` says what is wrong. */
  path?: string;
}

export function TextField({
  path,
  error,
  onChange,
  ...input
}: Field & Omit<TextInputProps, "value" | "onChange">) {
  const finding = useFinding();
  return (
    <TextInput
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
  error,
  onChange,
  ...area
}: Field & Omit<TextareaProps, "value" | "onChange">) {
  const finding = useFinding();
  return (
    <Textarea
      autoComplete="off"
      withAsterisk={false}
      error={error ?? (path && finding(path))}
      onChange={(event) => onChange(event.currentTarget.value)}
      {...area}
    />
  );
}
