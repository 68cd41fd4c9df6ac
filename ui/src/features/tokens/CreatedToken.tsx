import { Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { showTime } from "../../format/times";
import type { Token } from "./requests";

const COPIED = "Copied";

/** Shows the text of a new token, which the server returns only once. */
export function CreatedToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [status, setStatus] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(token.token ?? "");
      setStatus(COPIED);
    } catch {
      // Browsers block the clipboard without TLS or permission. Focusing the field selects the text.
      field.current?.focus();
      setStatus("The browser blocks copying. Press Ctrl+C to copy the selected text.");
    }
  };
  const CopyIcon = status === COPIED ? IconCheck : IconCopy;
  return (
    <Stack>
      <Text size="sm">
        Copy the token now. It will not be shown again. It grants access as {token.user}
        {token.expires_at ? ` until ${showTime(token.expires_at)}.` : " until it is revoked."}
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
          {status}
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
