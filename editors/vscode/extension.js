// Starts `salient lsp` for .attn files; what is shown is the server's.

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const command = workspace.getConfiguration("salient").get("path") || "salient";
  const server = { command, args: ["lsp"] };
  const options = {
    documentSelector: [{ language: "salient" }],
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.attn") },
  };
  client = new LanguageClient("salient", "Salient", server, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(`\`${command} lsp\` does not start: ${error.message}. The setting salient.path says where it is.`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    commands.registerCommand("salient.restart", restart),
    workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("salient.path")) restart();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
