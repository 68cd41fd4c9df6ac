/** Sets a secret, or replaces the value of one. What it was is never shown. */
import { Stack, Switch, Text } from "@mantine/core";
import { useState } from "react";
import { useAll } from "../../api/lists";
import { FormDialog } from "../../forms/FormDialog";
import { TextArea, TextField } from "../../forms/TextField";
import { withNotice } from "../../shell/notices";
import { findMisleading } from "./naming";
import { SECRETS, type Secret, useSetSecret } from "./requests";
import classes from "./SetDialog.module.css";

interface Props {
  project: string;
  /** The one to replace; left out, a new one is named. */
  read?: Secret;
  onClose: () => void;
}

export function SetDialog({ project, read, onClose }: Props) {
  const [name, setName] = useState(read?.name ?? "");
  const [value, setValue] = useState("");
  const [misleading, setMisleading] = useState(findMisleading(""));
  const present = useAll(SECRETS, {}, { project });
  const setting = useSetSecret(project);
  const isThere = present.data?.some((secret) => secret.name === name.trim()) ?? false;
  const save = () => {
    const wrong = findMisleading(name.trim());
    setMisleading(wrong);
    if (wrong.length > 0) return;
    setting.mutate(
      { name: name.trim(), value, read },
      withNotice(`Set ${name.trim()} in ${project}`, onClose),
    );
  };
  return (
    <FormDialog
      title={read ? `Replace the value of ${read.name}` : `Set a secret of ${project}`}
      submitLabel={read || isThere ? "Replace value" : "Set secret"}
      fields={["name", "value"]}
      findings={misleading}
      change={misleading.length > 0 ? undefined : setting}
      onClose={onClose}
      onSubmit={save}
    >
      {!read && <NameField value={name} onChange={setName} isThere={isThere} />}
      <ValueField value={value} onChange={setValue} isFirst={read !== undefined} />
      <Text size="sm" c="dimmed">
        It cannot be read again: keep it elsewhere too. Runs that have started keep the value that they began
        with.
      </Text>
    </FormDialog>
  );
}

interface NameProps {
  value: string;
  onChange: (name: string) => void;
  isThere: boolean;
}

function NameField({ value, onChange, isThere }: NameProps) {
  return (
    <Stack gap={4}>
      <TextField
        label="Name"
        description="Also the name of the variable, such as HF_TOKEN"
        required
        data-autofocus
        spellCheck={false}
        value={value}
        onChange={onChange}
        path="name"
      />
      {isThere && (
        <Text size="sm" role="status" c="light-dark(#a63c00, var(--mantine-color-orange-4))">
          It is there already: its value will be replaced.
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
        description="Several lines are kept as they are"
        required
        data-autofocus={isFirst || undefined}
        spellCheck={false}
        // Not one that grows: that measures a hidden copy of what is typed, and leaves it in the page.
        rows={3}
        resize="vertical"
        classNames={{ input: isShown ? classes.value : `${classes.value} ${classes.hidden}` }}
        value={value}
        onChange={onChange}
        path="value"
      />
      <Switch
        size="xs"
        label="Show what I type"
        checked={isShown}
        onChange={(event) => setShown(event.currentTarget.checked)}
      />
    </Stack>
  );
}
