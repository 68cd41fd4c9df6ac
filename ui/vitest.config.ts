import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/testing/browser.ts"],
    // Times are formatted in the time zone of the machine.
    env: { TZ: "UTC" },
    // One worker for all files takes a third of the time. Tests must undo their global changes.
    isolate: false,
    restoreMocks: true,
    unstubGlobals: true,
  },
});
