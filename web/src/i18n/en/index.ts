// One file a page, so that people who work on different pages do not meet.
import app from './app.json'
import approvals from './approvals.json'
import artifacts from './artifacts.json'
import audit from './audit.json'
import contexts from './contexts.json'
import docs from './docs.json'
import keys from './keys.json'
import leases from './leases.json'
import membridge from './membridge.json'
import newTask from './new-task.json'
import overview from './overview.json'
import schedules from './schedules.json'
import server from './server.json'
import settings from './settings.json'
import signIn from './sign-in.json'
import task from './task.json'
import tasks from './tasks.json'
import ui from './ui.json'
import workers from './workers.json'

export { server }
export const messages = {
  app,
  approvals,
  artifacts,
  audit,
  contexts,
  docs,
  keys,
  leases,
  membridge,
  newTask,
  overview,
  schedules,
  settings,
  signIn,
  task,
  tasks,
  ui,
  workers,
}
export type Messages = typeof messages
