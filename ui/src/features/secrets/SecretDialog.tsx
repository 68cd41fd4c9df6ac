/** Adds a secret, or replaces its value. The current value is never shown. */
import { Stack, Switch, Text } from "@mantine/core";
import { useState } from "react";
import { useAll } from "../../api/lists";
import { FormDialog } from "../../forms/FormDialog";
import { TextArea, TextField } from "../../forms/TextField";
import { withNotice } from "../../shell/notices";
import { findInvalidName } from "./naming";
import { SECRETS, type Secret, useSetSecret } from "./requests";
import classes from "./SecretDialog.module.css";

interface Props {
  project: string;
  /** The secret whose value to replace. If missing, the dialog adds a secret. */
  secret?: Secret;
  onClose: () => void;
}

export function SecretDialog({ project, secret, onClose }: Props) {
  const [name, setName] = useState(secret?.name ?? "");
  const [value, setValue] = useState("");
  const [nameErrors, setNameErrors] = useState(findInvalidName(""));
  const existing = useAll(SECRETS, {}, { project });
  const setting = useSetSecret(project);
  const exists = existing.data?.some((other) => other.name === name.trim()) ?? false;
  const save = () => {
    const errors = findInvalidName(name.trim());
    setNameErrors(errors);
    if (errors.length > 0) return;
    setting.mutate(
      { name: name.trim(), value, original: secret },
      withNotice(`Saved ${name.trim()} in ${project}`, onClose),
    );
  };
  return (
    <FormDialog
      title={secret ? `Replace value of ${secret.name}` : `Add secret to ${project}`}
      submitLabel={secret || exists ? "Replace value" : "Add secret"}
      fields={["name", "value"]}
      findings={nameErrors}
      change={nameErrors.length > 0 ? undefined : setting}
      onClose={onClose}
      onSubmit={save}
    >
      {!secret && <NameField value={name} onChange={setName} exists={exists} />}
      <ValueField value={value} onChange={setValue} isFirst={secret !== undefined} />
      <Text size="sm" c="dimmed">
        You can't view the value later, so keep a copy. Runs that have already started are not affected.
      </Text>
    </FormDialog>
  );
}

interface NameProps {
  value: string;
  onChange: (name: string) => void;
  exists: boolean;
}

function NameField({ value, onChange, exists }: NameProps) {
  return (
    <Stack gap={4}>
      <TextField
        label="Name"
        description="Also the environment variable's name, e.g. HF_TOKEN"
        required
        data-autofocus
        spellCheck={false}
        value={value}
        onChange={onChange}
        path="name"
      />
      {exists && (
        <Text size="sm" role="status" c="light-dark(#a63c00, var(--mantine-color-orange-4))">
          This secret already exists. Its value will be replaced.
        </Text>
      )}
    </Stack>
  );
}

interface ValueProps {
  value: string;
  onChange: (value: string) => void;
  isFirst: boolean;
}

function ValueField({ value, onChange, isFirst }: ValueProps) {
  const [isShown, setShown] = useState(false);
  return (
    <Stack gap="xs">
      <TextArea
        label="Value"
        description="May span several lines"
        required
        data-autofocus={isFirst || undefined}
        spellCheck={false}
        // No autosize: it would leave a hidden copy of the value in the page.
        rows={3}
        resize="vertical"
        classNames={{ input: isShown ? classes.value : `${classes.value} ${classes.hidden}` }}
        value={value}
        onChange={onChange}
        path="value"
      />
      <Switch
        size="xs"
        label="Show value"
        checked={isShown}
        onChange={(event) => setShown(event.currentTarget.checked)}
      />
    </Stack>
  );
}
