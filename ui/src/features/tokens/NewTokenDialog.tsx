/** Asks what a token is for, makes it, and shows its text once. */
import { Modal, Select } from "@mantine/core";
import { useState } from "react";
import { useMe } from "../../api/currentUser";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { useRestoreFocus } from "../../shell/focus";
import { MadeToken } from "./MadeToken";
import { type TokenRequest, useCreateToken } from "./requests";

const OWN = "own";
const NEVER = "never";
const LIVES = [
  { value: "1d", label: "1 day" },
  { value: "30d", label: "30 days" },
  { value: "90d", label: "90 days" },
  { value: NEVER, label: "Never" },
  { value: OWN, label: "Other" },
];

interface Draft {
  name: string;
  life: string;
  own: string;
  user: string;
}

interface Props {
  mayChooseUser: boolean;
  onClose: () => void;
}

export function NewTokenDialog({ mayChooseUser, onClose }: Props) {
  const creating = useCreateToken();
  const [draft, setDraft] = useState<Draft>({ name: "", life: "30d", own: "", user: "" });
  const made = creating.data;
  useRestoreFocus();
  if (made) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={`The token ${made.name}`}
        // A click beside it must not lose what is shown once.
        closeOnClickOutside={false}
        closeOnEscape={false}
        transitionProps={{ duration: 0 }}
      >
        <MadeToken token={made} onClose={onClose} />
      </Modal>
    );
  }
  return (
    <FormDialog
      title="New token"
      submitLabel="Create token"
      fields={["name", "expires_in", ...(mayChooseUser ? ["user"] : [])]}
      onSubmit={() => creating.mutate(writeToken(draft))}
      onClose={onClose}
      change={creating}
    >
      <Fields
        draft={draft}
        change={(part) => setDraft({ ...draft, ...part })}
        mayChooseUser={mayChooseUser}
      />
    </FormDialog>
  );
}

function writeToken({ name, life, own, user }: Draft): TokenRequest {
  return {
    name: name.trim(),
    expires_in: life === OWN ? own.trim() : life === NEVER ? null : life,
    user: user.trim() || null,
  };
}

interface FieldsProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  mayChooseUser: boolean;
}

function Fields({ draft, change, mayChooseUser }: FieldsProps) {
  const me = useMe();
  const finding = useFinding();
  const isOwn = draft.life === OWN;
  return (
    <>
      <TextField
        label="Name"
        description="What it is for, so that you know it again"
        placeholder="such as laptop or nightly training"
        data-autofocus
        value={draft.name}
        onChange={(name) => change({ name })}
        path="name"
      />
      <Select
        label="Expires in"
        data={LIVES}
        value={draft.life}
        onChange={(life) => change({ life: life ?? draft.life })}
        allowDeselect={false}
        error={isOwn ? undefined : finding("expires_in")}
      />
      {isOwn && (
        <TextField
          label="How long it lasts"
          placeholder="such as 12h or 1d12h"
          value={draft.own}
          onChange={(own) => change({ own })}
          path="expires_in"
        />
      )}
      {mayChooseUser && (
        <TextField
          label="User"
          description="Whose name and roles it has"
          placeholder={me.data && `${me.data.user}, you`}
          value={draft.user}
          onChange={(user) => change({ user })}
          path="user"
        />
      )}
    </>
  );
}
