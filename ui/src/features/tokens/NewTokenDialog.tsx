/** Creates a token and shows its text once. */
import { Modal, Select } from "@mantine/core";
import { useState } from "react";
import { useMe } from "../../api/currentUser";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { useRestoreFocus } from "../../shell/focus";
import { CreatedToken } from "./CreatedToken";
import { type TokenRequest, useCreateToken } from "./requests";

const CUSTOM = "custom";
const NEVER = "never";
const LIFETIMES = [
  { value: "1d", label: "1 day" },
  { value: "30d", label: "30 days" },
  { value: "90d", label: "90 days" },
  { value: NEVER, label: "Never" },
  { value: CUSTOM, label: "Other" },
];

interface Draft {
  name: string;
  lifetime: string;
  custom: string;
  user: string;
}

interface Props {
  mayChooseUser: boolean;
  onClose: () => void;
}

export function NewTokenDialog({ mayChooseUser, onClose }: Props) {
  const creating = useCreateToken();
  const [draft, setDraft] = useState<Draft>({ name: "", lifetime: "30d", custom: "", user: "" });
  const created = creating.data;
  useRestoreFocus();
  if (created) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={`Token ${created.name}`}
        // An accidental click or keypress must not discard the token, which is shown only once.
        closeOnClickOutside={false}
        closeOnEscape={false}
        transitionProps={{ duration: 0 }}
      >
        <CreatedToken token={created} onClose={onClose} />
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

function writeToken({ name, lifetime, custom, user }: Draft): TokenRequest {
  return {
    name: name.trim(),
    expires_in: lifetime === CUSTOM ? custom.trim() : lifetime === NEVER ? null : lifetime,
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
  const isCustom = draft.lifetime === CUSTOM;
  return (
    <>
      <TextField
        label="Name"
        description="A label to recognize it by"
        placeholder="e.g. laptop or nightly training"
        data-autofocus
        value={draft.name}
        onChange={(name) => change({ name })}
        path="name"
      />
      <Select
        label="Expiration"
        data={LIFETIMES}
        value={draft.lifetime}
        onChange={(lifetime) => change({ lifetime: lifetime ?? draft.lifetime })}
        error={isCustom ? undefined : finding("expires_in")}
      />
      {isCustom && (
        <TextField
          label="Duration"
          placeholder="e.g. 12h or 1d12h"
          value={draft.custom}
          onChange={(custom) => change({ custom })}
          path="expires_in"
        />
      )}
      {mayChooseUser && (
        <TextField
          label="User"
          description="The token has this user's roles"
          placeholder={me.data && `${me.data.user} (you)`}
          value={draft.user}
          onChange={(user) => change({ user })}
          path="user"
        />
      )}
    </>
  );
}
