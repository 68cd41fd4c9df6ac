import { Alert, Notification, Stack } from "@mantine/core";
import { IconCheck, IconPlugConnectedX } from "@tabler/icons-react";
import { connected } from "../api/connection";
import classes from "./Notices.module.css";
import { dismiss, notices } from "./notices";

export function Notices() {
  const isConnected = connected.use();
  return (
    <>
      <output className={classes.corner} aria-live="polite">
        <Stack gap="xs">
          {notices.use().map((notice) => (
            <Notification
              key={notice.id}
              icon={<IconCheck size={16} />}
              color="teal"
              withBorder
              onClose={() => dismiss(notice.id)}
              closeButtonProps={{ "aria-label": "Dismiss" }}
            >
              {notice.text}
            </Notification>
          ))}
        </Stack>
      </output>
      {!isConnected && (
        <Alert
          className={classes.top}
          role="alert"
          color="orange"
          icon={<IconPlugConnectedX size={18} />}
          title="The server is not responding"
        >
          Retrying. The data shown may be outdated. Your input is not lost.
        </Alert>
      )}
    </>
  );
}
