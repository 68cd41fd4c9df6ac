import { Select, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useAll } from "../../api/lists";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { type Asset, type AssetKind, useArchive } from "./requests";

interface Props {
  kind: AssetKind;
  item: Asset;
  onClose: () => void;
}

export function ArchiveDialog({ kind, item, onClose }: Props) {
  const archiving = useArchive(kind);
  const others = useAll(kind.apiPath);
  const [successor, setSuccessor] = useState<string | null>(null);
  const names = (others.data ?? []).map((other) => other.name).filter((name) => name !== item.name);
  return (
    <ConfirmDialog
      title={`Archive ${item.name}?`}
      submitLabel="Archive"
      isHarmless
      change={archiving}
      onClose={onClose}
      onConfirm={() =>
        archiving.mutate({ asset: item, successor }, withNotice(`Archived ${item.name}`, onClose))
      }
    >
      <Stack gap="sm">
        <Text size="sm">New runs won't be able to use it. Its history is kept, and you can restore it.</Text>
        <Select
          label="Successor"
          description="Replacement used by anything that still references it"
          placeholder="none"
          data={names}
          value={successor}
          onChange={setSuccessor}
          clearable
          searchable
        />
      </Stack>
    </ConfirmDialog>
  );
}
