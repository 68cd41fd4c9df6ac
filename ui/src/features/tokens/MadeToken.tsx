import { Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { showTime } from "../../format/times";
import type { Token } from "./requests";

const COPIED = "Copied";

/** The text of a token, this once. */
export function MadeToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [told, setTold] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(token.token ?? "");
      setTold(COPIED);
    } catch {
      // Without TLS, or where the user said no, pages may not write there. The focus selects the text.
      field.current?.focus();
      setTold("This page may not copy here. The text is selected: press Ctrl+C.");
    }
  };
  const CopyIcon = told === COPIED ? IconCheck : IconCopy;
  return (
    <Stack>
      <Text size="sm">
        Copy it now: it is not shown again. Whoever has it is {token.user}
        {token.expires_at ? ` until ${showTime(token.expires_at)}.` : ", until it is revoked."}
      </Text>
      <Textarea
        ref={field}
        label="Token"
        readOnly
        rows={2}
        spellCheck={false}
        styles={{
          input: {
            fontFamily: "var(--mantine-font-family-monospace)",
            wordBreak: "break-all",
            fontSize: "0.8rem",
          },
        }}
        value={token.token ?? ""}
        onFocus={(event) => event.currentTarget.select()}
      />
      <Group justify="space-between" wrap="nowrap">
        <Text size="sm" c="dimmed" role="status">
          {told}
        </Text>
        <Group gap="xs" wrap="nowrap">
          <Button variant="default" onClick={onClose}>
            Done
          </Button>
          <Button data-autofocus leftSection={<CopyIcon size={16} />} onClick={() => void copy()}>
            Copy
          </Button>
        </Group>
      </Group>
    </Stack>
  );
}
